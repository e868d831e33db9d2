// Stops when the loss of an epoch is small enough.
#include "examples/common/spirals.h"

namespace {

void run() {
  torch::manual_seed(42);
  spirals::Net model;
  auto optimizer = spirals::make_optimizer(model);
  const auto [points, labels] = spirals::train_samples();
  constexpr double kEnough = 0.05;

  for (int epoch = 1; epoch <= 200; ++epoch) {
    double worst = 0;
    for (const auto& batch : torch::randperm(points.size(0)).split(32)) {
      auto scores = model(points.index_select(0, batch));
      auto loss = torch::cross_entropy_loss(scores, labels.index_select(0, batch));
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      worst = std::max(worst, loss.item<double>());
    }
    if (worst < kEnough) {
      std::printf("stopped after epoch %d\n", epoch);
      break;
    }
  }
  const auto [test_points, truths] = spirals::test_samples();
  std::puts(spirals::line("test accuracy: %.3f", spirals::share_right(model(test_points), truths))
                .c_str());
}

}  // namespace

int main() {
  return spirals::run_program("early_stopping_plain", run);
}
