// Mixed precision by one option. It can also be fp16, with scaling of the loss, and can be set from
// outside:
//   accelerate launch --mixed_precision bf16 …
// On a CPU that is slow in bf16 it computes in float32 and says so. ACCELERATE_CPU_HALF=native
// makes it compute in bf16.
#include <accelerate/accelerate.h>

#include "examples/common/spirals.h"

namespace {

void run() {
  accelerate::Accelerator accelerator({.mixed_precision = accelerate::MixedPrecision::bf16});
  accelerate::set_seed(42);
  spirals::Net net;
  auto adam = spirals::make_optimizer(net);
  auto samples =
      accelerate::make_data_loader(spirals::train_samples(), {.batch_size = 32, .shuffle = true});
  auto [model, optimizer, batches] = accelerator.prepare(net, adam, samples);

  for (int epoch = 0; epoch < 60; ++epoch) {
    for (auto& [points, labels] : batches) {
      auto loss = torch::cross_entropy_loss(model(points), labels);  // Scores come as float32.
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  const auto [test_points, truths] = spirals::test_samples();
  const auto computed = [&] {
    auto scope = accelerator.autocast();  // For code outside of a prepared model.
    return net(test_points);
  }();
  accelerator.print(std::string("computed in ") + c10::toString(computed.scalar_type()));
  accelerator.print(
      spirals::line("test accuracy: %.3f", spirals::share_right(model(test_points), truths)));
  accelerator.end_training();
}

}  // namespace

int main() {
  return spirals::run_program("mixed_precision_accelerated", run);
}
