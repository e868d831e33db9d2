// AcceleratedOptimizer and the tensors inside LibTorch's optimizer states.
#include "accelerate/optim/accelerated_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/base/error.h"
#include "accelerate/optim/optimizer_state.h"

namespace accelerate {
namespace {

at::Tensor stepped_parameter(torch::optim::Optimizer& optimizer) {
  auto parameter = optimizer.param_groups()[0].params()[0];
  parameter.mutable_grad() = torch::ones_like(parameter);
  optimizer.step([&] { return torch::tensor(1.0, torch::requires_grad()); });
  return parameter;
}

std::vector<std::unique_ptr<torch::optim::Optimizer>> every_optimizer() {
  using namespace torch::optim;
  const auto leaf = [] {
    return std::vector<at::Tensor>{torch::ones({3}, torch::requires_grad())};
  };
  std::vector<std::unique_ptr<Optimizer>> all;
  all.push_back(std::make_unique<SGD>(leaf(), SGDOptions(0.1).momentum(0.9)));
  all.push_back(std::make_unique<Adam>(leaf(), AdamOptions(0.1).amsgrad(true)));
  all.push_back(std::make_unique<AdamW>(leaf(), AdamWOptions(0.1).amsgrad(true)));
  all.push_back(std::make_unique<Adagrad>(leaf(), AdagradOptions(0.1)));
  all.push_back(
      std::make_unique<RMSprop>(leaf(), RMSpropOptions(0.1).momentum(0.9).centered(true)));
  all.push_back(std::make_unique<LBFGS>(leaf(), LBFGSOptions(0.1).max_iter(2)));
  return all;
}

TEST(OptimizerState, EveryTensorOfTheSixOptimizersIsVisitedAndReplaced) {
  const std::vector<std::size_t> expected = {1, 3, 3,
                                             1, 3, 3};  // moments, sums and buffers of each
  const auto all = every_optimizer();
  for (std::size_t i = 0; i < all.size(); ++i) {
    stepped_parameter(*all[i]);
    std::size_t seen = 0;
    map_state_tensors(*all[i], [&seen](const at::Tensor& tensor) {
      ++seen;
      return tensor.to(at::kMeta);
    });
    EXPECT_GE(seen, expected[i]) << i;
    map_state_tensors(*all[i], [i](const at::Tensor& tensor) {
      EXPECT_TRUE(tensor.is_meta()) << i;
      return tensor;
    });
  }
}

struct OwnState : torch::optim::OptimizerCloneableParamState<OwnState> {};

TEST(OptimizerState, AForeignStateIsRefusedByType) {
  torch::optim::SGD sgd({torch::ones({1}, torch::requires_grad())}, 0.1);
  sgd.state()[sgd.param_groups()[0].params()[0].unsafeGetTensorImpl()] =
      std::make_unique<OwnState>();
  try {
    map_state_tensors(sgd, [](const at::Tensor& tensor) { return tensor; });
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("OwnState"), std::string::npos) << error.what();
  }
}

TEST(AcceleratedOptimizer, StepsAndClearsOnlyWhenGradientsAreSynchronised) {
  auto gradient_state = std::make_shared<GradientState>();
  auto parameter = torch::ones({2}, torch::requires_grad());
  torch::optim::SGD sgd({parameter}, 0.5);
  AcceleratedOptimizer optimizer(sgd, gradient_state);
  parameter.mutable_grad() = torch::ones({2});
  gradient_state->sync_gradients = false;
  optimizer.step();
  optimizer.zero_grad();
  EXPECT_EQ(parameter[0].item<double>(), 1.0);
  EXPECT_TRUE(parameter.grad().defined());
  gradient_state->sync_gradients = true;
  optimizer.step();
  optimizer.zero_grad();
  EXPECT_EQ(parameter[0].item<double>(), 0.5);
  EXPECT_FALSE(parameter.grad().defined());
}

TEST(AcceleratedOptimizer, PassesClosuresAndGroupsThrough) {
  auto parameter = torch::ones({1}, torch::requires_grad());
  torch::optim::SGD sgd({parameter}, 0.5);
  AcceleratedOptimizer optimizer(sgd, std::make_shared<GradientState>());
  const auto loss = optimizer.step([&] {
    parameter.mutable_grad() = torch::ones({1});
    return torch::tensor(7.0);
  });
  EXPECT_EQ(loss.item<double>(), 7.0);
  EXPECT_EQ(optimizer.param_groups().size(), 1u);
  EXPECT_EQ(&optimizer.optimizer(), &sgd);
}

}  // namespace
}  // namespace accelerate
