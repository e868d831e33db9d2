// The two modes of ScheduleFreeAdamW.
#include "accelerate/optim/algorithms/schedule_free_adamw.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/base/error.h"
#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/optim/optimizer_state.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

TEST(ScheduleFree, StepsOnlyInTrainMode) {
  const auto weight = torch::ones({3}, torch::requires_grad());
  ScheduleFreeAdamW optimizer({weight}, ScheduleFreeAdamWOptions(0.1));
  weight.mutable_grad() = torch::ones({3});
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "Call train() before training",
                      testing::message_of<UsageError>([&] { optimizer.step(); }));
  optimizer.train();
  optimizer.step();
  optimizer.add_param_group(std::vector<at::Tensor>{torch::ones({2}, torch::requires_grad())});
  EXPECT_FALSE(optimizer.is_in(OptimizerMode::train)) << "the new group is not";
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "after adding a group",
                      testing::message_of<UsageError>([&] { optimizer.step(); }));
}

TEST(ScheduleFree, EvaluatesAtTheAverageOfItsSteps) {
  const auto weight = torch::full({3}, 2.0, torch::requires_grad());
  ScheduleFreeAdamW optimizer({weight}, ScheduleFreeAdamWOptions(0.1));
  optimizer.train();
  at::Tensor sum = torch::zeros({3});
  for (int i = 0; i < 4; ++i) {
    weight.mutable_grad() = torch::tensor({1.0, -2.0, 0.5}) * (i + 1);
    optimizer.step();
    const auto state = optimizer_state_dict(optimizer, {}).at("state").at("param_groups.0.0");
    sum += state.at("z").to<at::Tensor>();
  }
  const auto y = weight.detach().clone();
  optimizer.eval();
  EXPECT_TRUE(torch::allclose(weight.detach(), sum / 4, 1e-5)) << "steps of one rate weigh alike";
  EXPECT_FALSE(torch::allclose(weight.detach(), y));
  const auto x = weight.detach().clone();
  optimizer.eval();
  EXPECT_TRUE(torch::equal(weight.detach(), x)) << "eval() twice is eval() once";
  optimizer.train();
  EXPECT_TRUE(torch::allclose(weight.detach(), y, 1e-5));
}

TEST(ScheduleFree, IsSwitchedThroughItsHandle) {
  const auto weight = torch::ones({3}, torch::requires_grad());
  ScheduleFreeAdamW optimizer({weight}, ScheduleFreeAdamWOptions(0.1));
  torch::optim::SGD plain({weight}, 0.1);
  AcceleratedOptimizer handle(optimizer, std::make_shared<GradientState>());
  AcceleratedOptimizer other(plain, std::make_shared<GradientState>());
  handle.train();
  other.train();
  EXPECT_TRUE(optimizer.is_in(OptimizerMode::train));
  handle.eval();
  other.eval();
  EXPECT_TRUE(optimizer.is_in(OptimizerMode::eval));
}

}  // namespace
}  // namespace accelerate
