// Dropout that keeps less and draws faster: LibTorch's draws, values and gradients.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <vector>

#include "accelerate/transformers/models/layers/attention.h"
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

TEST(DroppedAttention, HasASecondDerivative) {
  std::vector<at::Tensor> leaves;
  at::manual_seed(4);
  for (int i = 0; i < 3; ++i)
    leaves.push_back(at::randn({1, 2, 5, 4}, at::kDouble).requires_grad_());
  const at::Tensor hidden = at::ones({5, 5}, at::kBool).triu(1);
  const auto second = [&](bool ours, bool is_causal) {
    at::manual_seed(9);
    const at::Tensor mask = is_causal ? hidden : at::zeros_like(hidden);
    const at::Tensor scores = at::matmul(leaves[0], leaves[1].transpose(2, 3)) * 0.5;
    const at::Tensor output =
        ours ? dropped_attention(
                   leaves[0], leaves[1], leaves[2],
                   {.scale = 0.5, .p = 0.3, .hidden = is_causal ? hidden : at::Tensor()})
             : at::matmul(at::dropout(scores.masked_fill(mask, -INFINITY).softmax(-1), 0.3, true),
                          leaves[2]);
    const auto first = torch::autograd::grad({output.square().sum()}, leaves, {}, true, true);
    return torch::autograd::grad({first[0].sum() + first[1].sum() + first[2].sum()}, leaves);
  };
  for (const bool is_causal : {false, true}) {
    const auto ours = second(true, is_causal), theirs = second(false, is_causal);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-10, 1e-12)) << is_causal << i;
  }
}

// Attention of packed rows, whose weights are dropped.
struct Attended {
  at::Tensor output;
  std::vector<at::Tensor> gradients;
};

Attended attended(bool is_causal, std::int64_t key_heads, at::ScalarType type, bool by_libtorch) {
  at::manual_seed(2);
  const std::vector<std::int64_t> lengths{5, 1, 9};
  std::vector<at::Tensor> leaves;
  for (const std::int64_t heads : {std::int64_t{4}, key_heads, key_heads})
    leaves.push_back(at::randn({15, heads, 8}, type).requires_grad_());
  at::manual_seed(6);
  at::Tensor output;
  if (by_libtorch) {
    std::vector<at::Tensor> rows;
    for (std::int64_t begin = 0; const std::int64_t length : lengths) {
      const auto row = [&](int leaf) {
        return leaves[leaf].slice(0, begin, begin + length).transpose(0, 1).unsqueeze(0);
      };
      rows.push_back(at::scaled_dot_product_attention(row(0), row(1), row(2), {}, 0.3, is_causal,
                                                      {}, key_heads != 4)
                         .squeeze(0)
                         .transpose(0, 1));
      begin += length;
    }
    output = at::cat(rows).flatten(1);
  } else {
    const AttentionSpec spec{.dropout = 0.3, .mask = {.is_causal = is_causal}};
    const Tokens tokens(1, 15, {}, {.begins = {{5, 6}}});
    output = attention(leaves[0], leaves[1], leaves[2], tokens, spec);
  }
  (output * output).sum().backward();
  Attended found{output.detach(), {}};
  for (const auto& leaf : leaves) found.gradients.push_back(leaf.grad());
  return found;
}

// The same gradients where only some are asked for.
TEST(DroppedAttention, GivesTheGradientsThatAreWanted) {
  const auto gradients = [](const std::vector<bool>& wanted) {
    at::manual_seed(4);
    std::vector<at::Tensor> leaves;
    for (int i = 0; i < 3; ++i) leaves.push_back(at::randn({1, 2, 5, 4}));
    for (int i = 0; i < 3; ++i) leaves[i].set_requires_grad(wanted[i]);
    dropped_attention(leaves[0], leaves[1], leaves[2], {.scale = 0.5, .p = 0.3})
        .square()
        .sum()
        .backward();
    return std::vector<at::Tensor>{leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  };
  const auto all = gradients({true, true, true});
  for (const auto& wanted :
       {std::vector<bool>{false, false, true}, {true, false, false}, {false, true, true}}) {
    const auto some = gradients(wanted);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(some[i].defined(), wanted[i]);
      EXPECT_TRUE(!wanted[i] || at::equal(some[i], all[i]));
    }
  }
}

TEST(DroppedAttention, GivesLibTorchsValuesAndGradients) {
  for (const bool is_causal : {false, true}) {
    for (const std::int64_t key_heads : {4, 2}) {
      for (const auto& [type, share] : {std::pair(at::kDouble, 1e-11), {at::kFloat, 2e-5}}) {
        const auto ours = attended(is_causal, key_heads, type, false),
                   theirs = attended(is_causal, key_heads, type, true);
        EXPECT_TRUE(at::allclose(ours.output, theirs.output, share, share / 10));
        for (std::size_t i = 0; i < 3; ++i)
          EXPECT_TRUE(at::allclose(ours.gradients[i], theirs.gradients[i], share, share / 10)) << i;
      }
    }
  }
}

}  // namespace
}  // namespace accelerate::detail
