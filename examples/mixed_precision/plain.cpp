// Mixed precision by hand: the forward under autocast, the loss outside of it.
#include <ATen/autocast_mode.h>

#include "examples/common/spirals.h"

namespace {

/// While it lives, matrix products on the CPU compute in bfloat16.
struct Autocast {
  Autocast() {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

void run() {
  torch::manual_seed(42);
  spirals::Net model;
  auto optimizer = spirals::make_optimizer(model);
  const auto [points, labels] = spirals::train_samples();
  const auto forward = [&model](const torch::Tensor& batch) {
    const Autocast autocast;
    return model(batch);
  };

  for (int epoch = 0; epoch < 60; ++epoch) {
    for (const auto& batch : torch::randperm(points.size(0)).split(32)) {
      auto scores = forward(points.index_select(0, batch)).to(torch::kFloat32);
      torch::cross_entropy_loss(scores, labels.index_select(0, batch)).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  const auto [test_points, truths] = spirals::test_samples();
  const auto computed = forward(test_points);
  std::printf("computed in %s\n", c10::toString(computed.scalar_type()));
  std::puts(spirals::line("test accuracy: %.3f", spirals::share_right(computed, truths)).c_str());
}

}  // namespace

int main() {
  return spirals::run_program("mixed_precision_plain", run);
}
