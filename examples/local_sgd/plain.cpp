// What Local SGD starts from: plain SGD in one process.
#include "examples/common/spirals.h"

namespace {

void run() {
  torch::manual_seed(42);
  spirals::Net model;
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const auto [points, labels] = spirals::train_samples();

  int steps = 0;
  for (int epoch = 0; epoch < 120; ++epoch) {
    for (const auto& batch : torch::randperm(points.size(0)).split(16)) {
      auto scores = model(points.index_select(0, batch));
      auto loss = torch::cross_entropy_loss(scores, labels.index_select(0, batch));
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      ++steps;
    }
  }
  const auto [test_points, truths] = spirals::test_samples();
  std::printf("%d steps\n", steps);
  std::puts(spirals::line("test accuracy: %.3f", spirals::share_right(model(test_points), truths))
                .c_str());
}

}  // namespace

int main() {
  return spirals::run_program("local_sgd_plain", run);
}
