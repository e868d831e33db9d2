// Stops when the loss of an epoch is small enough on any rank. That rank raises a flag, and all
// ranks see it in the same step, so none waits for a rank that has left the loop.
#include <accelerate/accelerate.h>

#include "examples/common/spirals.h"

namespace {

void run() {
  accelerate::Accelerator accelerator;
  accelerate::set_seed(42);
  spirals::Net net;
  auto adam = spirals::make_optimizer(net);
  auto samples =
      accelerate::make_data_loader(spirals::train_samples(), {.batch_size = 32, .shuffle = true});
  auto [model, optimizer, batches] = accelerator.prepare(net, adam, samples);
  constexpr double kEnough = 0.05;

  for (int epoch = 1; epoch <= 200; ++epoch) {
    double worst = 0;
    for (auto& [points, labels] : batches) {
      auto loss = torch::cross_entropy_loss(model(points), labels);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      worst = std::max(worst, loss.item<double>());
    }
    if (worst < kEnough) accelerator.set_trigger();
    if (accelerator.check_trigger()) {
      accelerator.print("stopped after epoch " + std::to_string(epoch));
      break;
    }
  }
  const auto [test_points, truths] = spirals::test_samples();
  accelerator.print(
      spirals::line("test accuracy: %.3f", spirals::share_right(model(test_points), truths)));
  accelerator.end_training();
}

}  // namespace

int main() {
  return spirals::run_program("early_stopping_accelerated", run);
}
