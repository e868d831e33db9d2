// Fine-tunes a model of Hugging Face on a GPU, in bf16 under autocast, with clipping and AdamW, and
// reports how long steps take. originals/gpu_models.py does the same in Python.
//
// usage: bench_gpu_models FOLDER WARM_UP_STEPS BLOCKS STEPS_PER_BLOCK
//
// FOLDER: a BERT with a head of eight classes (32 rows of 16 to 128 tokens, padded to the longest),
// or a GPT-2 (8 rows of 1,024 tokens).
#include <accelerate/accelerate.h>
#include <accelerate/transformers.h>
#include <torch/torch.h>

#include <string>

#include "benchmarks/programs/measure.h"

namespace {

using namespace accelerate;

Inputs sentences(std::int64_t vocabulary) {
  constexpr std::int64_t kRows = 32, kLongest = 128;
  const at::Tensor places = at::arange(kLongest), rows = at::arange(kRows).unsqueeze(1);
  const at::Tensor mask = places < rows * 37 % 113 + 16;
  return Inputs{{"input_ids", ((rows * 131 + places * 17) % vocabulary) * mask},
                {"attention_mask", mask.to(at::kLong)},
                {"labels", at::arange(kRows) % 8}};
}

Inputs long_texts(std::int64_t vocabulary) {
  const at::Tensor ids =
      (at::arange(8).unsqueeze(1) * 131 + at::arange(1024) * 17) % (vocabulary - 1);
  return Inputs{{"input_ids", ids}, {"labels", ids}};
}

void run(const std::string& folder, const bench::TimedBlocks& timed) {
  if (!torch::cuda::is_available()) throw std::runtime_error("no GPU that this LibTorch can use");
  Accelerator accelerator({.mixed_precision = MixedPrecision::bf16});
  set_seed(42);
  const auto config = PretrainedConfig::from_pretrained(folder);
  const bool is_encoder = config.model_type() == "bert";
  const auto net = is_encoder ? AutoModelForSequenceClassification::from_pretrained(folder)
                              : AutoModelForCausalLM::from_pretrained(folder);
  net->to(accelerator.device());
  torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(5e-5));
  auto [model, optimizer] = accelerator.prepare(net, adam);
  const auto vocabulary = config.get<std::int64_t>("vocab_size", 0);
  const Inputs on_cpu = is_encoder ? sentences(vocabulary) : long_texts(vocabulary);
  Inputs batch;
  for (const auto& [name, tensor] : on_cpu) batch.set(name, tensor.to(accelerator.device()));
  double first_loss = 0;
  {
    const torch::NoGradGuard no_grad;
    net->eval();
    first_loss = model(batch).loss.item<double>();
    net->train();
  }
  const auto loop = [&, &model = model, &optimizer = optimizer](int steps) {
    for (int i = 0; i < steps; ++i) {
      const at::Tensor loss = model(batch).loss;  // Frees the logits before the backward pass.
      accelerator.backward(loss);
      accelerator.clip_grad_norm_(model.parameters(), 1.0);
      optimizer.step();
      optimizer.zero_grad();
    }
    torch::cuda::synchronize();
  };
  const auto seconds = bench::block_seconds(timed, loop);
  bench::report({{"block_seconds", seconds},
                 {"first_loss", first_loss},
                 {"device_peak_mib",
                  static_cast<double>(device_memory(accelerator.device()).peak_allocated_bytes) /
                      (1 << 20)}});
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_with_word(argc, argv, {"WARM_UP_STEPS", "BLOCKS", "STEPS_PER_BLOCK"},
                              [](const std::string& folder, const std::vector<int>& values) {
                                run(folder, {values[0], values[1], values[2]});
                              });
}
