// Finds a batch size that fits by hand: catches the error when memory runs out, and tries less.
#include "examples/automatic_batch_size/small_device.h"
#include "examples/common/spirals.h"

namespace {

double train(std::int64_t batch_size) {
  torch::manual_seed(42);
  spirals::Net model;
  auto optimizer = spirals::make_optimizer(model);
  const auto [points, labels] = spirals::train_samples();
  for (int epoch = 0; epoch < 80; ++epoch) {
    for (const auto& batch : torch::randperm(points.size(0)).split(batch_size)) {
      auto scores = model(on_small_device(points.index_select(0, batch)));
      torch::cross_entropy_loss(scores, labels.index_select(0, batch)).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  const auto [test_points, truths] = spirals::test_samples();
  return spirals::share_right(model(test_points), truths);
}

void run() {
  for (std::int64_t batch_size = 128; batch_size > 0; batch_size = batch_size * 9 / 10) {
    try {
      const double share = train(batch_size);
      std::printf("batch size %d fits\n", static_cast<int>(batch_size));
      std::puts(spirals::line("test accuracy: %.3f", share).c_str());
      return;
    } catch (const c10::OutOfMemoryError&) {
      // Try the next size.
    }
  }
  throw std::runtime_error("not even one sample fits");
}

}  // namespace

int main() {
  return spirals::run_program("automatic_batch_size_plain", run);
}
