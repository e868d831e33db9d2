// Finds a batch size that fits on all ranks: when one rank runs out of memory, all ranks try less.
#include <accelerate/accelerate.h>

#include "examples/automatic_batch_size/small_device.h"
#include "examples/common/spirals.h"

namespace {

double train(accelerate::Accelerator& accelerator, std::int64_t batch_size) {
  accelerator.free_memory();
  accelerate::set_seed(42);
  spirals::Net net;
  auto adam = spirals::make_optimizer(net);
  auto samples = accelerate::make_data_loader(spirals::train_samples(),
                                              {.batch_size = batch_size, .shuffle = true});
  auto [model, optimizer, batches] = accelerator.prepare(net, adam, samples);
  for (int epoch = 0; epoch < 80; ++epoch) {
    for (auto& [points, labels] : batches) {
      auto loss = torch::cross_entropy_loss(model(on_small_device(points)), labels);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  const auto [test_points, truths] = spirals::test_samples();
  return spirals::share_right(model(test_points), truths);
}

void run() {
  accelerate::Accelerator accelerator;
  auto search = accelerate::find_executable_batch_size(
      accelerator, [&](std::int64_t batch_size) { return train(accelerator, batch_size); },
      {.starting_batch_size = 128});
  const double share = search();
  accelerator.print("batch size " + std::to_string(search.batch_size()) + " fits");
  accelerator.print(spirals::line("test accuracy: %.3f", share));
  accelerator.end_training();
}

}  // namespace

int main() {
  return spirals::run_program("automatic_batch_size_accelerated", run);
}
