// Starts its own ranks: trains on one rank, then on two, and gets back what each rank returned. Run
// it directly, without `accelerate launch`.
#include <accelerate/accelerate.h>

#include "examples/common/spirals.h"

namespace {

/// Trains on each rank and returns the share of test samples that are classified right.
double train() {
  accelerate::Accelerator accelerator;
  accelerate::set_seed(42);
  spirals::Net net;
  auto adam = spirals::make_optimizer(net);
  auto samples =
      accelerate::make_data_loader(spirals::train_samples(), {.batch_size = 32, .shuffle = true});
  auto [model, optimizer, batches] = accelerator.prepare(net, adam, samples);
  for (int epoch = 1; epoch <= 40; ++epoch) {
    for (auto& [points, labels] : batches) {
      accelerator.backward(torch::cross_entropy_loss(model(points), labels));
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  const auto [test_points, truths] = spirals::test_samples();
  const double accuracy = spirals::share_right(model(test_points), truths);
  accelerator.end_training();
  return accuracy;
}

void run() {
  for (const int ranks : {1, 2}) {
    const auto accuracies = accelerate::notebook_launcher(train, {.num_processes = ranks});
    std::printf("%d rank(s):", ranks);
    for (const double accuracy : accuracies) std::printf(" %.3f", accuracy);
    std::printf("\n");
  }
}

}  // namespace

int main() {
  return spirals::run_program("notebook_launcher", run);
}
