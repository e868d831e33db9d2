// What the small examples share: two spirals to tell apart, a network that can do it, and the frame
// of a program. A training takes less than a second. All numbers but the weights are fixed.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>

namespace spirals {

/// points: float32 {n, 2}; labels: int64 {n}, 0 or 1.
using Samples = std::pair<torch::Tensor, torch::Tensor>;

inline Samples make_samples(std::int64_t n, double shift) {
  const auto place = (torch::arange(n, torch::kDouble) + shift) / static_cast<double>(n);
  const auto labels = torch::arange(n) % 2;
  const auto angle = 7.0 * place + M_PI * labels;
  const auto radius = 0.2 + place + 0.02 * torch::sin(97.0 * place);
  const auto points = torch::stack({radius * torch::cos(angle), radius * torch::sin(angle)}, 1);
  return {points.to(torch::kFloat32), labels};
}
inline Samples train_samples() {
  return make_samples(512, 0.0);
}
/// There are 99 samples, so that no number of ranks and no batch size divides them.
inline Samples test_samples() {
  return make_samples(99, 0.5);
}

struct NetImpl : torch::nn::Module {
  /// points: float32 {n, 2}. Returns the scores of both spirals, float32 {n, 2}.
  torch::Tensor forward(const torch::Tensor& points) {
    return out(torch::tanh(middle(torch::tanh(in(points)))));
  }
  torch::nn::Linear in = register_module("in", torch::nn::Linear(2, 64));
  torch::nn::Linear middle = register_module("middle", torch::nn::Linear(64, 64));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(64, 2));
};
TORCH_MODULE(Net);

inline torch::optim::Adam make_optimizer(Net& net) {
  return torch::optim::Adam(net->parameters(), torch::optim::AdamOptions(1e-2));
}

/// Returns the share, from 0 to 1, of rows of `scores`, {n, 2}, whose greater score is the label's.
inline double share_right(const torch::Tensor& scores, const torch::Tensor& labels) {
  return scores.argmax(1).eq(labels).to(torch::kDouble).mean().item<double>();
}

inline std::string line(const char* format, double value) {
  char text[80];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// main(): runs `body`. An exception becomes a sentence and exit code 1.
inline int run_program(const char* name, void (*body)()) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace spirals
