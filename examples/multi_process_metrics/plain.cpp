// Computes a metric over all test samples, batch by batch, in one process.
#include "examples/common/spirals.h"

namespace {

void run() {
  torch::manual_seed(42);
  spirals::Net model;
  auto optimizer = spirals::make_optimizer(model);
  const auto [points, labels] = spirals::train_samples();
  for (int epoch = 0; epoch < 60; ++epoch) {
    for (const auto& batch : torch::randperm(points.size(0)).split(32)) {
      auto scores = model(points.index_select(0, batch));
      torch::cross_entropy_loss(scores, labels.index_select(0, batch)).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  }

  const torch::NoGradGuard no_grad;
  const auto [test_points, truths] = spirals::test_samples();
  std::int64_t right = 0, all = 0;
  for (const auto& batch : torch::arange(test_points.size(0)).split(16)) {
    const auto guesses = model(test_points.index_select(0, batch)).argmax(1);
    right += guesses.eq(truths.index_select(0, batch)).sum().item<std::int64_t>();
    all += guesses.size(0);
  }
  std::printf("%d test samples\n", static_cast<int>(all));
  std::puts(
      spirals::line("test accuracy: %.3f", static_cast<double>(right) / static_cast<double>(all))
          .c_str());
}

}  // namespace

int main() {
  return spirals::run_program("multi_process_metrics_plain", run);
}
