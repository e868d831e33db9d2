// Trains a small language model, 27 million weights, on the ranks it is launched on, sharded or not
// as the launcher says, and reports on rank 0 how long blocks of steps took and how much memory the
// ranks take together.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

#include <fstream>
#include <string>

#include "benchmarks/programs/measure.h"

namespace {

constexpr std::int64_t kVocabulary = 8000, kWidth = 512, kHeads = 8, kLayers = 6;
constexpr std::int64_t kBatchSize = 4, kTokens = 64;

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    attention_norm = register_module("attention_norm", norm());
    qkv = register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth));
    out = register_module("out", torch::nn::Linear(kWidth, kWidth));
    norm_2 = register_module("norm_2", norm());
    up = register_module("up", torch::nn::Linear(kWidth, 4 * kWidth));
    down = register_module("down", torch::nn::Linear(4 * kWidth, kWidth));
  }
  static torch::nn::LayerNorm norm() {
    return torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth}));
  }
  at::Tensor forward(at::Tensor x) {
    const auto rows = x.size(0), tokens = x.size(1);
    const auto heads = qkv(attention_norm(x))
                           .view({rows, tokens, 3, kHeads, kWidth / kHeads})
                           .permute({2, 0, 3, 1, 4});
    const auto attended = at::scaled_dot_product_attention(heads[0], heads[1], heads[2]);
    x = x + out(attended.transpose(1, 2).reshape({rows, tokens, kWidth}));
    return x + down(torch::gelu(up(norm_2(x))));
  }
  torch::nn::LayerNorm attention_norm{nullptr}, norm_2{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  NetImpl() {
    embedding = register_module("embedding", torch::nn::Embedding(kVocabulary, kWidth));
    for (int i = 0; i < kLayers; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), Block()));
    head = register_module("head", torch::nn::Linear(kWidth, kVocabulary));
  }
  at::Tensor forward(at::Tensor x) {
    x = embedding(x);
    for (auto& block : blocks) x = block(x);
    return head(x);
  }
  torch::nn::Embedding embedding{nullptr};
  std::vector<Block> blocks;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Net);

// This process's share of the memory that it maps: what several have mapped is divided by them.
double proportional_mib() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    double kib = 0;
    if (word == "Pss:" && file >> kib) return kib / 1024;
  }
  throw std::runtime_error("/proc/self/smaps_rollup has no Pss");
}

void run(const bench::TimedBlocks& timed) {
  accelerate::Accelerator accelerator({.cpu = true});
  accelerate::set_seed(42);
  Net net;
  torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(1e-3));
  auto [model, optimizer] = accelerator.prepare(net, adam);
  torch::manual_seed(100 + accelerator.process_index());
  const auto tokens = torch::randint(kVocabulary, {kBatchSize, kTokens});
  const auto targets = torch::randint(kVocabulary, {kBatchSize * kTokens});
  double loss = 0, mib = 0;
  auto train = [&, &model = model, &optimizer = optimizer](int steps) {
    for (int i = 0; i < steps; ++i) {
      const auto value =
          torch::nn::functional::cross_entropy(model(tokens).view({-1, kVocabulary}), targets);
      accelerator.backward(value);
      if (i + 1 == steps) mib = std::max(mib, proportional_mib());
      optimizer.step();
      optimizer.zero_grad();
      loss = value.item<double>();
    }
  };

  const auto seconds = bench::block_seconds(timed, train);
  const auto together = accelerator.reduce(torch::tensor({mib}));
  std::string home = "whole";
  if (const auto& shards = model.core()->shards()) home = shards->full_parameters();
  if (accelerator.is_main_process()) {
    bench::report({{"block_seconds", seconds},
                   {"ranks", accelerator.num_processes()},
                   {"full_parameters", home},
                   {"loss", loss},
                   {"proportional_mib", together.item<double>()}});
  }
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_timed_blocks(argc, argv, run);
}
