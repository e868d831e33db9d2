// Communication hooks: gradients travel in bfloat16, and our own hook around the built-in one
// counts their bytes. Without the counting, the option `.ddp = {.comm_hook = …::bf16}` is enough.
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

  std::int64_t bytes = 0;
  std::int64_t steps = 0;
  model.register_comm_hook(
      [&bytes, compress = accelerate::compress_hook(torch::kBFloat16)](auto& group, auto& bucket) {
        bytes += bucket.buffer.numel() * 2;  // Two bytes each in bfloat16.
        return compress(group, bucket);
      });
  for (int epoch = 0; epoch < 60; ++epoch) {
    for (auto& [points, labels] : batches) {
      auto loss = torch::cross_entropy_loss(model(points), labels);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      ++steps;
    }
  }
  const auto [test_points, truths] = spirals::test_samples();
  accelerator.print(std::to_string(bytes / steps) + " bytes of gradients sent in a step");
  accelerator.print(
      spirals::line("test accuracy: %.3f", spirals::share_right(model(test_points), truths)));
  accelerator.end_training();
}

}  // namespace

int main() {
  return spirals::run_program("communication_hook_accelerated", run);
}
