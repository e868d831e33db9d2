// Dropout that keeps less and draws faster: LibTorch's draws, values and gradients.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <vector>

#include "accelerate/transformers/models/layers/dropout.h"

namespace accelerate::detail {
namespace {

// Ours and LibTorch's in turn, from one state of the generator and on: the generator ends alike.
TEST(BernoulliMask, DrawsWhatLibTorchDraws) {
  const std::vector<std::int64_t> sizes{0, 1, 2, 3, 7, 155, 311, 312, 313, 624, 1000, 4099};
  for (const double p : {0.0, 1e-9, 0.1, 0.25, 0.5, 0.9, 1 - 1e-12, 1.0}) {
    const auto drawn = [&](const std::function<at::Tensor(const at::Tensor&)>& draw) {
      std::vector<at::Tensor> found;
      at::manual_seed(17);
      for (const std::int64_t size : sizes) {
        found.push_back(draw(at::empty({size})));
        found.push_back(at::rand({size % 3}));  // Leaves the generator at an odd place.
      }
      return found;
    };
    const auto ours = drawn([&](const at::Tensor& like) { return bernoulli_mask(like, p); });
    const auto theirs = drawn([&](const at::Tensor& like) {
      return at::empty_like(like, like.options().dtype(at::kBool)).bernoulli_(p);
    });
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(at::equal(ours[i], theirs[i])) << "p " << p << ", draw " << i;
  }
}

struct Outcome {
  at::Tensor output, gradient;
};

Outcome outcome_of(const at::Tensor& input, const std::function<at::Tensor(const at::Tensor&)>& f) {
  const at::Tensor leaf = input.detach().requires_grad_();
  at::manual_seed(5);
  const at::Tensor output = f(leaf);
  output.backward(at::ones_like(output) * 0.7);
  return {output.detach(), leaf.grad()};
}

TEST(Dropout, GivesLibTorchsValuesAndGradients) {
  const at::Tensor plain = at::randn({3, 41, 17});
  plain[0][0][0] = INFINITY;
  plain[0][1][0] = -0.0;
  const at::Tensor sparse = plain.slice(2, 0, 17, 2);
  for (const at::Tensor& shaped : {plain, plain.transpose(0, 2), sparse, sparse.transpose(0, 2)}) {
    for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      for (const double p : {0.0, 0.1, 0.37, 1.0}) {
        const at::Tensor input = shaped.to(type);
        const auto ours = outcome_of(input, [&](const auto& x) { return dropout_of(x, p, true); });
        const auto theirs =
            outcome_of(input, [&](const auto& x) { return at::dropout(x, p, true); });
        EXPECT_TRUE(at::allclose(ours.output, theirs.output, 0, 0, /*equal_nan=*/true))
            << type << " " << p;
        EXPECT_EQ(ours.output.strides(), theirs.output.strides());
        EXPECT_TRUE(at::equal(ours.gradient, theirs.gradient)) << type << " " << p;
      }
    }
  }
  EXPECT_TRUE(dropout_of(plain, 0.5, false).is_same(plain));
}

TEST(Dropout, HasASecondDerivative) {
  const at::Tensor input = at::randn({4, 9}, at::kDouble).requires_grad_();
  at::manual_seed(3);
  const at::Tensor output = dropout_of(input * input, 0.4, true).sum();
  const auto first = torch::autograd::grad({output}, {input}, {}, true, true);
  first[0].sum().backward();
  at::manual_seed(3);
  const at::Tensor factors = at::dropout(at::ones_like(input.detach()), 0.4, true);
  EXPECT_TRUE(at::allclose(input.grad(), 2 * factors));
}

}  // namespace
}  // namespace accelerate::detail
