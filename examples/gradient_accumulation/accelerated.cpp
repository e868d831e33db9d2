// Gradient accumulation: with accumulate() the loop looks as it does without accumulation. Ranks
// communicate only when a step is due.
#include <accelerate/accelerate.h>

#include "examples/common/spirals.h"

namespace {

void run() {
  accelerate::Accelerator accelerator({.gradient_accumulation_steps = 4});
  accelerate::set_seed(42);
  spirals::Net net;
  auto adam = spirals::make_optimizer(net);
  auto samples =
      accelerate::make_data_loader(spirals::train_samples(), {.batch_size = 16, .shuffle = true});
  auto [model, optimizer, batches] = accelerator.prepare(net, adam, samples);

  int steps = 0;
  for (int epoch = 0; epoch < 60; ++epoch) {
    for (auto& [points, labels] : batches) {
      auto window = accelerator.accumulate(model);
      auto loss = torch::cross_entropy_loss(model(points), labels);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      steps += accelerator.sync_gradients() ? 1 : 0;
    }
  }
  const auto [points, truths] = spirals::test_samples();
  accelerator.print(std::to_string(steps) + " optimizer steps");
  accelerator.print(
      spirals::line("test accuracy: %.3f", spirals::share_right(model(points), truths)));
  accelerator.end_training();
}

}  // namespace

int main() {
  return spirals::run_program("gradient_accumulation_accelerated", run);
}
