// Trains a stack of transformer encoder layers on the ranks it is launched on, and reports on rank
// 0 how long blocks of steps took. Gradients are large here, and small in train_steps.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

#include "benchmarks/programs/measure.h"

namespace {

constexpr std::int64_t kWidth = 512, kHeads = 8, kLayers = 6, kTokens = 64, kBatchSize = 4;

void run(const bench::TimedBlocks& timed) {
  accelerate::Accelerator accelerator({.cpu = true});
  accelerate::set_seed(42);
  const auto layer = torch::nn::TransformerEncoderLayer(
      torch::nn::TransformerEncoderLayerOptions(kWidth, kHeads).dropout(0.0));
  torch::nn::TransformerEncoder net(torch::nn::TransformerEncoderOptions(layer, kLayers));
  torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(1e-4));
  auto [model, optimizer] = accelerator.prepare(net, adam);

  const auto tokens = torch::randn({kTokens, kBatchSize, kWidth});
  const auto targets = torch::randn({kTokens, kBatchSize, kWidth});
  auto train = [&, &model = model, &optimizer = optimizer](int steps) {
    for (int i = 0; i < steps; ++i) {
      accelerator.backward(torch::mse_loss(model(tokens), targets));
      optimizer.step();
      optimizer.zero_grad();
    }
  };

  const auto seconds = bench::block_seconds(timed, train);
  const int ranks = accelerator.num_processes();
  if (accelerator.is_main_process()) bench::report({{"block_seconds", seconds}, {"ranks", ranks}});
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_timed_blocks(argc, argv, run);
}
