// Leaves that get memory: the same tensor for every handle, and for autograd.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/tensor/compat/leaf_memory.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

using compat::materialise_;
using testing::kind_and_message_of;

at::Tensor meta_leaf(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  return torch::empty(shape, torch::dtype(dtype).device(at::kMeta)).requires_grad_();
}

// Module::to cannot: set_data refuses the meta device in both directions.
void empty_out(torch::nn::Module& module) {
  for (const auto& leaf : module.parameters())
    materialise_(leaf, torch::empty_like(leaf, at::kMeta));
}

TEST(Materialise, EveryHandleSeesTheMemory) {
  torch::nn::Linear linear(3, 2);
  empty_out(*linear);
  EXPECT_TRUE(linear->weight.is_meta());
  torch::optim::SGD optimizer(linear->parameters(), 0.1);
  const auto values = torch::randn({2, 3});
  materialise_(linear->named_parameters()["weight"], values);
  EXPECT_TRUE(linear->weight.is_alias_of(values));
  EXPECT_TRUE(linear->weight.equal(values));
  EXPECT_TRUE(optimizer.param_groups()[0].params()[0].equal(values));
  EXPECT_TRUE(linear->weight.is_leaf() && linear->weight.requires_grad());
}

TEST(Materialise, TakesShapeStridesDtypeAndDeviceOfTheData) {
  auto leaf = torch::empty({7}, at::kMeta);
  const auto data = torch::arange(6, at::kDouble).view({2, 3}).t();
  materialise_(leaf, data);
  EXPECT_EQ(leaf.sizes(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(leaf.strides(), data.strides());
  EXPECT_EQ(leaf.scalar_type(), at::kDouble);
  EXPECT_TRUE(leaf.device().is_cpu());
  EXPECT_TRUE(leaf.equal(data));
  EXPECT_FALSE(leaf.requires_grad());
}

TEST(Materialise, TrainsAsALeafThatWasNeverEmpty) {
  torch::manual_seed(0);
  torch::nn::Linear plain(4, 3), late(4, 3);
  empty_out(*late);
  torch::optim::AdamW of_plain(plain->parameters(), 0.1), of_late(late->parameters(), 0.1);
  materialise_(late->weight, plain->weight.detach().clone());
  materialise_(late->bias, plain->bias.detach().clone());
  for (int step = 0; step < 3; ++step) {
    const auto input = torch::randn({5, 4});
    for (auto* pair : {&of_plain, &of_late}) pair->zero_grad();
    plain(input).square().mean().backward();
    late(input).square().mean().backward();
    of_plain.step(), of_late.step();
  }
  EXPECT_TRUE(late->weight.equal(plain->weight));
  EXPECT_TRUE(late->bias.equal(plain->bias));
}

TEST(Materialise, GradientsHaveTheDtypeOfTheNewData) {
  auto leaf = meta_leaf({2, 3});
  const auto before = torch::mm(torch::empty({5, 2}, at::kMeta), leaf);  // Its accumulator exists.
  materialise_(leaf, torch::randn({2, 3}, at::kBFloat16));
  torch::mm(torch::ones({5, 2}, at::kBFloat16), leaf).sum().backward();
  EXPECT_EQ(leaf.grad().scalar_type(), at::kBFloat16);
  EXPECT_TRUE(leaf.grad().device().is_cpu());
  EXPECT_TRUE(leaf.grad().equal(torch::full({2, 3}, 5, at::kBFloat16)));
}

TEST(Materialise, HooksOnTheTensorStayAndFireOnce) {
  int fired = 0;
  auto leaf = meta_leaf({3});
  leaf.register_hook([&](const at::Tensor& gradient) {
    ++fired;
    return gradient * 2;
  });
  materialise_(leaf, torch::ones({3}, at::kDouble));
  leaf.sum().backward();
  EXPECT_EQ(fired, 1);
  EXPECT_TRUE(leaf.grad().equal(torch::full({3}, 2, at::kDouble)));
}

TEST(Materialise, DropsAGradientOfAnotherDeviceAndKeepsOneThatFits) {
  auto leaf = meta_leaf({3});
  leaf.mutable_grad() = torch::empty({3}, at::kMeta);
  materialise_(leaf, torch::ones({3}));
  EXPECT_FALSE(leaf.grad().defined());
  leaf.mutable_grad() = torch::ones({3});
  materialise_(leaf, torch::zeros({3}, at::kBFloat16));
  EXPECT_TRUE(leaf.grad().equal(torch::ones({3})));
}

TEST(Materialise, AViewBecomesATensorOfItsOwn) {
  const auto base = torch::empty({2, 3}, at::kMeta);
  auto buffer = base.t();
  ASSERT_TRUE(buffer.is_view());
  materialise_(buffer, torch::zeros({3, 2}));
  EXPECT_FALSE(buffer.is_view());
  const auto weight = torch::ones({3, 2}).requires_grad_();
  buffer.add_(weight);  // Would be handed on to the base, which has no memory.
  buffer.sum().backward();
  EXPECT_TRUE(weight.grad().equal(torch::ones({3, 2})));
}

TEST(Materialise, AParameterThatWasAViewStaysALeafWithItsHooks) {
  int fired = 0;
  auto leaf = torch::empty({2, 3}, at::kMeta).t().requires_grad_();
  leaf.register_hook([&](const at::Tensor&) { ++fired; });
  materialise_(leaf, torch::ones({3, 2}));
  EXPECT_TRUE(leaf.is_leaf() && leaf.requires_grad());
  (leaf * 3).sum().backward();
  EXPECT_EQ(fired, 1);
  EXPECT_TRUE(leaf.grad().equal(torch::full({3, 2}, 3)));
}

TEST(Materialise, ATensorWithMemoryGetsOther) {
  auto leaf = torch::zeros({4}).requires_grad_();
  const auto pages = torch::arange(8, at::kFloat);
  materialise_(leaf, pages.narrow(0, 2, 4));
  EXPECT_TRUE(leaf.is_alias_of(pages));
  leaf.sum().backward();
  EXPECT_EQ(leaf.storage_offset(), 2);
  EXPECT_TRUE(leaf.grad().equal(torch::ones({4})));
}

TEST(Materialise, RefusesWhatCannotBeALeafWithMemory) {
  const auto inference = [] {
    const c10::InferenceMode scope;
    return torch::ones({2});
  };
  struct Row {
    at::Tensor leaf, data;
    std::string says;
  };
  const std::vector<Row> rows = {
      {{}, torch::ones({2}), "the tensor to materialise is undefined"},
      {meta_leaf({2}), {}, "the data to materialise a tensor with is undefined"},
      {meta_leaf({2}) * 2, torch::ones({2}), "only leaves can be given other memory"},
      {meta_leaf({2}), torch::ones({2}).to_sparse(), "sparse, quantised or nested"},
      {torch::ones({2}).to_sparse(), torch::ones({2}), "sparse, quantised or nested"},
      {meta_leaf({2}), inference(), "an inference tensor"},
      {meta_leaf({2}), torch::ones({2}, at::kLong), "cannot hold long int [2] on cpu"},
  };
  for (const auto& row : rows) {
    const auto said = kind_and_message_of([&] { materialise_(row.leaf, row.data); });
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "UsageError: ", said);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, row.says, said);
    const bool could = row.leaf.defined() && row.leaf.is_leaf() && !row.leaf.is_sparse();
    EXPECT_TRUE(!could || row.leaf.is_meta()) << "nothing changed";
  }
}

}  // namespace
}  // namespace accelerate
