// The same model with LibTorch alone, which has no gradient checkpointing: everything is kept.
#include "examples/recompute/deep_net.h"

namespace {

void run() {
  torch::manual_seed(42);
  deep::Net model;
  auto optimizer = torch::optim::Adam(model->parameters(), torch::optim::AdamOptions(3e-3));
  const auto [points, labels] = spirals::train_samples();

  for (int epoch = 0; epoch < 60; ++epoch) {
    for (const auto& batch : torch::randperm(points.size(0)).split(64)) {
      auto loss = torch::cross_entropy_loss(model(points.index_select(0, batch)),
                                            labels.index_select(0, batch));
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  std::puts("0 blocks are computed again");
  const torch::NoGradGuard no_grad;
  const auto [test_points, truths] = spirals::test_samples();
  std::puts(spirals::line("test accuracy: %.3f", spirals::share_right(model(test_points), truths))
                .c_str());
}

}  // namespace

int main() {
  return spirals::run_program("recompute_plain", run);
}
