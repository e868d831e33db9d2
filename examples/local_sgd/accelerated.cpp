// Local SGD: ranks train separately. They average their weights every eighth step, instead of their
// gradients in every step. On one rank it changes nothing.
#include <accelerate/accelerate.h>

#include "examples/common/spirals.h"

namespace {

void run() {
  accelerate::Accelerator accelerator;
  accelerate::set_seed(42);
  spirals::Net net;
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  auto samples =
      accelerate::make_data_loader(spirals::train_samples(), {.batch_size = 16, .shuffle = true});
  auto [model, optimizer, batches] = accelerator.prepare(net, sgd, samples);

  {
    accelerate::LocalSGD local_sgd(accelerator, model, 8);
    for (int epoch = 0; epoch < 120; ++epoch) {
      for (auto& [points, labels] : batches) {
        auto loss = torch::cross_entropy_loss(model(points), labels);
        accelerator.backward(loss);
        optimizer.step();
        optimizer.zero_grad();
        local_sgd.step();
      }
    }
    accelerator.print(std::to_string(local_sgd.num_steps()) + " steps");
  }  // Averages once more.
  const auto [test_points, truths] = spirals::test_samples();
  accelerator.print(
      spirals::line("test accuracy: %.3f", spirals::share_right(model(test_points), truths)));
  accelerator.end_training();
}

}  // namespace

int main() {
  return spirals::run_program("local_sgd_accelerated", run);
}
