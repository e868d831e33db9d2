// Prepared optimizers in the training loop; ports of upstream's tests/test_optimizer.py.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/accelerate.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

Accelerator half_precision() {
  return Accelerator({.mixed_precision = MixedPrecision::fp16,
                      .grad_scaler = {.init_scale = 1024},
                      .communicator = single_communicator()});
}

// One step whose gradients are all `value` before they are unscaled.
template <typename Model>
void step_with(Accelerator& accelerator, Model& model, AcceleratedOptimizer& optimizer,
               float value) {
  accelerator.backward(model(torch::randn({2, 5})).sum());
  for (auto& leaf : model.parameters()) leaf.mutable_grad().fill_(value);
  optimizer.step();
}

TEST(PreparedOptimizer, SaysThatAStepWasSkippedUntilOneIsNot) {
  auto accelerator = half_precision();
  torch::nn::Linear net(5, 5);
  torch::optim::SGD sgd(net->parameters(), 0.1);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  for (const float value : {0.01F, NAN, NAN, 0.01F}) {
    const auto before = net->weight.detach().clone();
    step_with(accelerator, model, optimizer, value);
    EXPECT_EQ(optimizer.step_was_skipped(), std::isnan(value));
    EXPECT_EQ(accelerator.optimizer_step_was_skipped(), std::isnan(value));
    EXPECT_EQ(before.equal(net->weight.detach()), std::isnan(value));
  }
}

TEST(PreparedOptimizer, IsTheSameOneWhenPreparedTwice) {
  Accelerator accelerator({.communicator = single_communicator()});
  torch::nn::Linear net(5, 5);
  torch::optim::SGD sgd(net->parameters(), 0.1);
  const auto first = accelerator.prepare(sgd), second = accelerator.prepare(sgd);
  EXPECT_EQ(first.core(), second.core());
}

TEST(PreparedOptimizer, ClippingUnscalesFirstAndReturnsTheUnscaledNorm) {
  auto accelerator = half_precision();
  torch::nn::Linear net(torch::nn::LinearOptions(4, 1).bias(false));
  torch::optim::SGD sgd(net->parameters(), 1.0);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  const auto before = net->weight.detach().clone();
  accelerator.backward(model(torch::full({1, 4}, 0.25F)).sum());  // the gradient, in fp16

  EXPECT_EQ(accelerator.clip_grad_norm_(model.parameters(), 0.25).item<double>(), 0.5);
  EXPECT_TRUE(torch::allclose(net->weight.grad(), torch::full({1, 4}, 0.125)));
  optimizer.step();
  EXPECT_TRUE(torch::allclose(net->weight, before - 0.125, 1e-5, 1e-6));
}

// parameters() of a LibTorch module lists a layer that is used twice twice.
struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    register_module("first", layer);
    register_module("second", layer);
    torch::nn::init::ones_(layer->weight);
  }
  at::Tensor forward(const at::Tensor& x) { return layer(layer(x)); }
  torch::nn::Linear layer{torch::nn::LinearOptions(1, 1).bias(false)};
};
TORCH_MODULE(Tied);

TEST(PreparedOptimizer, TiedWeightsAreUnscaledOnce) {
  auto accelerator = half_precision();
  Tied net;
  torch::optim::SGD sgd(net->parameters(), 1.0);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  ASSERT_EQ(net->parameters().size(), 2u);
  accelerator.backward(model(torch::ones({1, 1})).sum());
  optimizer.unscale_gradients();
  EXPECT_EQ(net->layer->weight.grad().item<double>(), 2.0);
}

// Each rank has half the samples; LBFGS decides by the losses, which differ.
TEST(PreparedOptimizer, LbfgsOnTwoRanksFindsWhatOneRankFinds) {
  const auto options = torch::optim::LBFGSOptions(1).max_iter(10).line_search_fn("strong_wolfe");
  const auto x = torch::linspace(-1, 1, 24, at::kDouble).reshape({8, 3}).pow(2);
  const auto y = torch::linspace(1, 2, 8, at::kDouble).unsqueeze(1);
  const auto train = [&](const std::shared_ptr<Communicator>& group) {
    Accelerator accelerator({.communicator = group});
    torch::nn::Linear net(3, 1);
    net->to(at::kDouble);
    for (auto& leaf : net->parameters()) torch::nn::init::constant_(leaf, 0.25);
    torch::optim::LBFGS lbfgs(net->parameters(), options);
    auto [model, optimizer] = accelerator.prepare(net, lbfgs);
    const auto rows = 8 / group->size();
    const auto mine = [&](const at::Tensor& all) {
      return all.narrow(0, rows * group->rank(), rows);
    };
    optimizer.step([&, &model = model, &optimizer = optimizer] {
      optimizer.zero_grad();
      const auto loss = torch::mse_loss(model(mine(x)), mine(y));
      accelerator.backward(loss);
      return loss;
    });
    return net->weight.detach().clone();
  };
  const auto alone = train(single_communicator());
  testing::run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& group) {
    EXPECT_TRUE(torch::allclose(train(group), alone, 1e-8, 1e-10));
  });
}

}  // namespace
}  // namespace accelerate
