// What the programs of this folder share: 32 sentences of two kinds, a TorchScript model that tells
// them apart, and the frame of a program. export_bert.py writes such a model.
#pragma once

#include <torch/script.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace sentences {

constexpr int kLength = 16;  ///< Tokens in a sentence, with padding.
constexpr int kBatch = 8;    ///< Sentences in a step, on all ranks together.
constexpr int kEpochs = 5;

/// tokens: int64 {32, 16}, 0 where a sentence has ended; labels: int64 {32}, 0 or 1.
inline std::pair<torch::Tensor, torch::Tensor> all() {
  const auto row = torch::arange(32).unsqueeze(1);
  const auto column = torch::arange(kLength).unsqueeze(0);
  auto tokens = (row * 17 + column * (row % 7 + 3) + 5) % 61 + 3;
  tokens = tokens.masked_fill(column >= kLength - row % 6, 0);
  return {tokens, tokens.select(1, 0) % 2};
}

/// tokens: int64 {n, 16}, labels: int64 {n}. Returns the mean loss, float32 {}.
template <typename Model>
torch::Tensor loss_of(Model& model, const torch::Tensor& tokens, const torch::Tensor& labels) {
  const auto mask = tokens.ne(0).to(torch::kLong);
  const auto scores = model.forward({tokens, mask}).toTuple()->elements()[0].toTensor();
  return torch::cross_entropy_loss(scores.to(torch::kFloat), labels);
}

inline std::vector<torch::Tensor> parameters_of(const torch::jit::Module& model) {
  std::vector<torch::Tensor> parameters;
  for (const auto& parameter : model.parameters()) parameters.push_back(parameter);
  return parameters;
}

inline std::string line(int step, double loss) {
  char text[80];
  std::snprintf(text, sizeof text, "step %d: loss %.9f", step, loss);
  return text;
}

/// main(): runs `body` with the file that the command line names, and with the file to write the
/// trained model to ("": none). An exception becomes a sentence and exit code 1.
inline int run_program(int argc, char** argv,
                       void (*body)(const std::string& file, const std::string& out)) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: %s MODEL.pt [OUT]   (export_bert.py writes a model)\n", argv[0]);
    return 2;
  }
  try {
    body(argv[1], argc == 3 ? argv[2] : "");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

}  // namespace sentences
