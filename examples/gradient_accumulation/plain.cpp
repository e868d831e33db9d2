// Gradient accumulation by hand: an optimizer step for every four batches, and for the rest.
#include "examples/common/spirals.h"

namespace {

void run() {
  torch::manual_seed(42);
  spirals::Net model;
  auto optimizer = spirals::make_optimizer(model);
  const auto [points, labels] = spirals::train_samples();
  constexpr int kAccumulate = 4;

  int steps = 0;
  for (int epoch = 0; epoch < 60; ++epoch) {
    const auto batches = torch::randperm(points.size(0)).split(16);
    for (std::size_t i = 0; i < batches.size(); ++i) {
      auto scores = model(points.index_select(0, batches[i]));
      auto loss = torch::cross_entropy_loss(scores, labels.index_select(0, batches[i]));
      (loss / kAccumulate).backward();
      if ((i + 1) % kAccumulate != 0 && i + 1 != batches.size()) continue;
      optimizer.step();
      optimizer.zero_grad();
      ++steps;
    }
  }
  const auto [test_points, truths] = spirals::test_samples();
  std::printf("%d optimizer steps\n", steps);
  std::puts(spirals::line("test accuracy: %.3f", spirals::share_right(model(test_points), truths))
                .c_str());
}

}  // namespace

int main() {
  return spirals::run_program("gradient_accumulation_plain", run);
}
