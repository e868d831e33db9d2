// Unscaling and clipping at once.
#include "accelerate/optim/clipping.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "tests/optim/optimizers.h"
#include "tests/optim/scaled.h"

namespace accelerate {
namespace {

using testing::Scaled;

struct ClipCase {
  std::string name;
  double max_norm = 1, norm_type = 2, init_scale = 65536;
  double factor = 1;          // of the gradients
  bool half_of_them = false;  // clip only the first parameter
  bool merges = false;        // so that nothing unscales but the clipping
};

constexpr auto kUnscale = "aten::_amp_foreach_non_finite_check_and_unscale_";

// Both ways, from the same gradients: the merged one and one step after the other.
void compare_clipping(const ClipCase& row) {
  std::vector<std::vector<at::Tensor>> gradients;
  std::vector<at::Tensor> norms;
  for (const bool merge : {true, false}) {
    const Scaled scaled({.init_scale = row.init_scale});
    torch::manual_seed(3);
    auto leaves = testing::leaves_of({torch::zeros({33}), torch::zeros({5, 4})});
    torch::optim::SGD sgd(leaves, 0.1);
    auto optimizer = scaled.prepare(sgd);
    for (auto& leaf : leaves) scaled.backward(leaf, torch::randn_like(leaf) * row.factor);
    const auto clipped = row.half_of_them ? std::vector{leaves[0]} : leaves;
    if (!merge) optimizer.unscale_gradients();  // leaves nothing to merge
    const testing::Operations operations;
    norms.push_back(
        detail::unscale_and_clip_grad_norm_({optimizer}, clipped, row.max_norm, row.norm_type));
    EXPECT_EQ(testing::Operations::seen().count(kUnscale) == 0, row.merges || !merge) << row.name;
    EXPECT_TRUE(scaled.scaler->is_unscaled(&sgd)) << row.name;
    EXPECT_EQ(scaled.scaler->found_inf(&sgd), std::isnan(row.factor)) << row.name;
    gradients.push_back(optimizer.gradients());
  }
  EXPECT_EQ(testing::distance({norms[0]}, {norms[1]}), 0.0) << row.name;
  EXPECT_EQ(testing::distance(gradients[0], gradients[1]), 0.0) << row.name;
}

TEST(UnscaledClipping, HasTheSameBitsMergedAndInTwoSteps) {
  const std::vector<ClipCase> table = {
      {.name = "clipped", .merges = true},
      {.name = "not clipped", .max_norm = 1e6, .merges = true},
      {.name = "measured", .max_norm = INFINITY, .merges = true},
      {.name = "to nothing", .max_norm = 0, .merges = true},
      {.name = "infinite order", .norm_type = INFINITY, .merges = true},
      {.name = "order 1", .norm_type = 1, .merges = true},
      {.name = "order 0", .norm_type = 0},
      {.name = "scale 1", .init_scale = 1, .merges = true},
      {.name = "not a power of two", .init_scale = 1000},
      {.name = "below 1", .init_scale = 0.25},
      {.name = "scaled norm overflows", .factor = 1e16},
      {.name = "NaN", .factor = NAN},
      {.name = "some parameters", .half_of_them = true}};
  for (const auto& row : table) compare_clipping(row);
}

TEST(UnscaledClipping, UnscalesEveryOptimizerAndClipsWhatItIsGiven) {
  const Scaled scaled;
  auto a = torch::zeros({1}, torch::requires_grad()), b = torch::zeros({1}, torch::requires_grad());
  torch::optim::SGD first({a}, 1.0), second({b}, 1.0);
  const std::vector both = {scaled.prepare(first), scaled.prepare(second)};
  scaled.backward(a, torch::full({1}, 4.0));
  scaled.backward(b, torch::full({1}, 3.0));
  EXPECT_EQ(detail::unscale_and_clip_grad_norm_(both, {a}, 2.0, 2.0).item<double>(), 4.0);
  EXPECT_NEAR(a.grad().item<double>(), 2.0, 1e-5);
  EXPECT_EQ(b.grad().item<double>(), 3.0);
}

}  // namespace
}  // namespace accelerate
