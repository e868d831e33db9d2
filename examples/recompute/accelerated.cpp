// Gradient checkpointing by one option. The blocks know nothing of it: they keep their inputs, and
// backward runs their operators again. The same option works for TorchScript, and when the model is
// replicated or sharded over ranks:
//   accelerate launch --num_processes 2 …
#include <accelerate/accelerate.h>

#include "examples/recompute/deep_net.h"

namespace {

void run() {
  accelerate::Accelerator accelerator(
      {.gradient_checkpointing = accelerate::GradientCheckpointing{}});
  accelerate::set_seed(42);
  deep::Net net;
  auto adam = torch::optim::Adam(net->parameters(), torch::optim::AdamOptions(3e-3));
  auto samples =
      accelerate::make_data_loader(spirals::train_samples(), {.batch_size = 64, .shuffle = true});
  auto [model, optimizer, batches] = accelerator.prepare(net, adam, samples);

  for (int epoch = 0; epoch < 60; ++epoch) {
    for (auto& [points, labels] : batches) {
      auto loss = torch::cross_entropy_loss(model(points), labels);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  accelerator.print(std::to_string(model.core()->parallel().recompute->units().size()) +
                    " blocks are computed again");
  const torch::NoGradGuard no_grad;
  const auto [test_points, truths] = spirals::test_samples();
  accelerator.print(
      spirals::line("test accuracy: %.3f", spirals::share_right(model(test_points), truths)));
  accelerator.end_training();
}

}  // namespace

int main() {
  return spirals::run_program("recompute_accelerated", run);
}
