// Computes a metric over all test samples, each counted once. Ranks get equally many batches, so
// some samples come twice in the last one; gather_for_metrics leaves the repeats out.
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
  auto test_set = accelerate::make_data_loader(spirals::test_samples(), {.batch_size = 16});
  auto [model, optimizer, batches, test] = accelerator.prepare(net, adam, samples, test_set);
  for (int epoch = 0; epoch < 60; ++epoch) {
    for (auto& [points, labels] : batches) {
      auto loss = torch::cross_entropy_loss(model(points), labels);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
    }
  }

  const torch::NoGradGuard no_grad;
  std::int64_t right = 0, all = 0;
  for (auto& [points, labels] : test) {
    const auto [guesses, truths] =
        accelerator.gather_for_metrics(std::pair{model(points).argmax(1), labels});
    right += guesses.eq(truths).sum().item<std::int64_t>();
    all += truths.size(0);
  }
  accelerator.print(std::to_string(all) + " test samples");
  accelerator.print(
      spirals::line("test accuracy: %.3f", static_cast<double>(right) / static_cast<double>(all)));
  accelerator.end_training();
}

}  // namespace

int main() {
  return spirals::run_program("multi_process_metrics_accelerated", run);
}
