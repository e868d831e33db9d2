// Attention of packed sequences on a CPU: LibTorch's values and gradients, by the loops of each instruction set.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "accelerate/transformers/models/layers/attention.h"
#include "accelerate/transformers/models/layers/kernels/kernels.h"
#include "accelerate/transformers/models/layers/packed_attention.h"

namespace accelerate::detail {
namespace {

struct Shape {
  std::vector<std::int64_t> lengths;
  std::int64_t heads, key_heads, dim;
};

// Lengths and widths around the multiples that kernels work in, and more than one block of queries.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{{{5, 1, 9}, 4, 2, 8},
                                      {{16, 17, 46, 47}, 3, 3, 32},
                                      {{33, 2}, 6, 2, 7},
                                      {{31}, 1, 1, 80},
                                      {{700, 3}, 2, 1, 24}};
  return all;
}

std::int64_t tokens_of(const Shape& shape) {
  std::int64_t tokens = 0;
  for (const std::int64_t length : shape.lengths) tokens += length;
  return tokens;
}

struct Case {
  bool is_causal;
  double dropout;
  double softcap = 0;
};
constexpr std::array kCases{Case{false, 0},  Case{true, 0},       Case{false, 0.3},
                            Case{true, 0.1}, Case{false, 0, 1.5}, Case{true, 0.1, 20}};

PackedAttention spec_of(const Shape& shape, const Case& which) {
  PackedAttention spec{.scale = 0.4,
                       .softcap = which.softcap,
                       .dropout = which.dropout,
                       .is_causal = which.is_causal};
  for (layer_kernels::Size begin = 0; const std::int64_t length : shape.lengths) {
    const auto count = static_cast<layer_kernels::Size>(length);
    spec.sequences.push_back({begin, count, begin, count});
    begin += count;
  }
  return spec;
}

std::vector<at::Tensor> leaves_of(const Shape& shape, at::ScalarType type) {
  std::vector<at::Tensor> leaves;
  for (const std::int64_t heads : {shape.heads, shape.key_heads, shape.key_heads})
    leaves.push_back(
        at::randn({tokens_of(shape), heads, shape.dim}, at::kFloat).to(type).requires_grad_());
  return leaves;
}

// By LibTorch's operators, in the type of the leaves; dropout keeps what `keep` says.
at::Tensor composed(const std::vector<at::Tensor>& leaves, const PackedAttention& spec,
                    const at::Tensor& keep) {
  const std::int64_t heads = leaves[0].size(1), times = heads / leaves[1].size(1);
  std::vector<at::Tensor> rows;
  std::int64_t weight = 0;
  for (const layer_kernels::SequencePlace& place : spec.sequences) {
    const auto first = static_cast<std::int64_t>(place.first_key),
               count = static_cast<std::int64_t>(place.keys);
    const auto row = [&](std::size_t leaf, std::int64_t copies) {
      return leaves[leaf].narrow(0, first, count).transpose(0, 1).repeat_interleave(copies, 0);
    };
    at::Tensor scores = at::matmul(row(0, 1), row(1, times).transpose(1, 2)) * spec.scale;
    if (spec.softcap > 0) scores = (scores / spec.softcap).tanh() * spec.softcap;
    if (spec.is_causal) {
      const auto hidden = at::ones({count, count}, at::kBool).triu(1);
      scores = scores.masked_fill(hidden, -INFINITY);
    }
    at::Tensor weights = scores.softmax(-1);
    const auto kept = keep.narrow(0, weight, weights.numel()).view(weights.sizes());
    weight += weights.numel();
    weights = weights * kept / (1 - spec.dropout);
    rows.push_back(at::matmul(weights, row(2, times)).transpose(0, 1));
  }
  return at::cat(rows);
}

// What dropout keeps, drawn from where the generator is.
at::Tensor drawn(const Shape& shape, double dropout) {
  std::int64_t weights = 0;
  for (const std::int64_t length : shape.lengths) weights += shape.heads * length * length;
  const at::Tensor keep = at::ones({weights}, at::kBool);
  return dropout > 0 ? keep.bernoulli_(1 - dropout) : keep;
}

// By the loops of each instruction set that runs here.
class PackedAttentionOf : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override { ASSERT_TRUE(layer_kernels::choose(GetParam())); }
  void TearDown() override { layer_kernels::choose(layer_kernels::versions().back()); }
};

TEST_P(PackedAttentionOf, GivesLibTorchsValuesAndGradients) {
  for (const auto& [type, share] : {std::pair(at::kFloat, 4e-6), {at::kBFloat16, 1.0 / 128}}) {
    for (const Shape& shape : shapes()) {
      for (const Case& which : kCases) {
        at::manual_seed(2);
        const auto leaves = leaves_of(shape, type);
        std::vector<at::Tensor> wide;
        for (const auto& leaf : leaves)
          wide.push_back(leaf.detach().to(at::kDouble).requires_grad_());
        const PackedAttention spec = spec_of(shape, which);
        at::manual_seed(6);
        const at::Tensor ours = packed_attention(leaves[0], leaves[1], leaves[2], spec);
        const at::Tensor after = at::randn({3});
        at::manual_seed(6);
        const at::Tensor theirs = composed(wide, spec, drawn(shape, which.dropout));
        EXPECT_TRUE(at::equal(after, at::randn({3})));
        ASSERT_EQ(ours.scalar_type(), type);
        const at::Tensor by = at::randn(ours.sizes()).to(type);
        const auto found = torch::autograd::grad({ours}, leaves, {by}),
                   wanted = torch::autograd::grad({theirs}, wide, {by.to(at::kDouble)});
        const auto is_close = [&, share = share](const at::Tensor& a, const at::Tensor& b) {
          return (a.to(at::kDouble) - b).abs().max().item<double>() <=
                 share * b.abs().max().item<double>();
        };
        EXPECT_TRUE(is_close(ours.detach(), theirs.detach())) << type << " of " << shape.dim;
        for (std::size_t i = 0; i < 3; ++i)
          EXPECT_TRUE(is_close(found[i], wanted[i])) << type << " of " << shape.dim << ", " << i;
      }
    }
  }
}

TEST_P(PackedAttentionOf, GivesTheSameBitsToAnyNumberOfThreads) {
  const Shape shape{{40, 3, 21}, 4, 2, 16};
  const auto found = [&](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    at::manual_seed(5);
    const auto leaves = leaves_of(shape, at::kFloat);
    const at::Tensor output =
        packed_attention(leaves[0], leaves[1], leaves[2], spec_of(shape, {true, 0.2}));
    auto all = torch::autograd::grad({output.square().sum()}, leaves);
    at::set_num_threads(before);
    all.push_back(output);
    return all;
  };
  const auto one = found(1), three = found(3);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], three[i])) << i;
}

// Scores that overflow, are equal, or are not numbers: what the softmax of LibTorch makes of them.
TEST_P(PackedAttentionOf, TreatsSpecialValuesAsLibTorch) {
  const Shape shape{{6}, 1, 1, 4};
  const at::Tensor key = at::randn({6, 1, 4}), value = at::randn({6, 1, 4});
  at::Tensor query = at::randn({6, 1, 4});
  query[0].fill_(INFINITY);
  query[1].fill_(NAN);
  query[2].fill_(1e30);
  query[3].fill_(-0.0);
  query[4].fill_(1e-40);
  const PackedAttention spec = spec_of(shape, {false, 0});
  const at::Tensor ours = packed_attention(query, key, value, spec),
                   theirs = composed({query, key, value}, spec, drawn(shape, 0));
  EXPECT_TRUE(at::allclose(ours, theirs, 1e-5, 1e-6, /*equal_nan=*/true)) << ours << theirs;
}

INSTANTIATE_TEST_SUITE_P(Loops, PackedAttentionOf, ::testing::ValuesIn(layer_kernels::versions()),
                         [](const auto& version) { return std::string(version.param); });

TEST(PackedAttention, HasASecondDerivative) {
  for (const Case& which : kCases) {
    at::manual_seed(4);
    const Shape shape{{5, 2}, 4, 2, 3};
    const auto leaves = leaves_of(shape, at::kFloat);
    const PackedAttention spec = spec_of(shape, which);
    const auto second = [&](bool ours) {
      at::manual_seed(9);
      // Values that depend on keys.
      const std::vector<at::Tensor> given{leaves[0], leaves[1], leaves[2] + leaves[1].sin()};
      const at::Tensor output = ours ? packed_attention(given[0], given[1], given[2], spec)
                                     : composed(given, spec, drawn(shape, which.dropout));
      const auto first = torch::autograd::grad({output.square().sum()}, leaves, {}, true, true);
      return torch::autograd::grad({first[0].sum() + first[1].sum() + first[2].sum()}, leaves);
    };
    const auto ours = second(true), theirs = second(false);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-4, 1e-5)) << i;
  }
}

TEST(PackedAttention, GivesTheGradientsThatAreWanted) {
  const Shape shape{{5, 4}, 2, 2, 4};
  const auto gradients = [&](const std::vector<bool>& wanted) {
    at::manual_seed(4);
    const auto leaves = leaves_of(shape, at::kFloat);
    for (std::size_t i = 0; i < 3; ++i) leaves[i].set_requires_grad(wanted[i]);
    packed_attention(leaves[0], leaves[1], leaves[2], spec_of(shape, {false, 0.3}))
        .square()
        .sum()
        .backward();
    return std::vector<at::Tensor>{leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  };
  const auto all = gradients({true, true, true});
  for (const auto& wanted :
       {std::vector<bool>{false, false, true}, {true, false, false}, {false, true, true}}) {
    const auto some = gradients(wanted);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(some[i].defined(), wanted[i]);
      EXPECT_TRUE(!wanted[i] || at::equal(some[i], all[i]));
    }
  }
}

// One tensor of queries, keys and values side by side, as GPT-2 has it, and dims that are not
// neighbours.
TEST(PackedAttention, ReadsTensorsInAnyLayout) {
  const Shape shape{{7, 3}, 2, 2, 8};
  const at::Tensor all = at::randn({10, 3, 2, 8});
  const PackedAttention spec = spec_of(shape, {true, 0});
  const auto part = [&](int i) { return all.select(1, i); };
  const auto apart = [](const at::Tensor& x) {
    return x.transpose(1, 2).contiguous().transpose(1, 2);
  };
  const at::Tensor want =
      packed_attention(part(0).contiguous(), part(1).contiguous(), part(2).contiguous(), spec);
  EXPECT_TRUE(at::equal(packed_attention(part(0), part(1), part(2), spec), want));
  EXPECT_TRUE(
      at::equal(packed_attention(apart(part(0)), apart(part(1)), apart(part(2)), spec), want));
}

TEST(PackedAttention, LeavesKeysAloneThatNothingAsks) {
  const auto leaves = leaves_of({{9}, 2, 2, 4}, at::kFloat);
  const at::Tensor output =
      packed_attention(leaves[0].narrow(0, 0, 1), leaves[1], leaves[2],
                       {.sequences = {{0, 1, 0, 4}, {1, 0, 4, 5}}, .scale = 0.5});
  const auto gradients = torch::autograd::grad({output.sum()}, leaves);
  for (const std::size_t i : {1, 2}) {
    EXPECT_TRUE(gradients[i].narrow(0, 0, 4).ne(0).any().item<bool>());
    EXPECT_TRUE(gradients[i].narrow(0, 4, 5).eq(0).all().item<bool>());
  }
  EXPECT_EQ(packed_attention(at::empty({0, 2, 4}), at::empty({0, 2, 4}), at::empty({0, 2, 4}), {})
                .numel(),
            0);
}

TEST(PackedAttention, IsForSomeTensorsOnly) {
  const at::Tensor plain = at::randn({3, 2, 4});
  EXPECT_EQ(can_attend_packed(plain, plain, plain), layer_kernels::are_vectorised());
  EXPECT_FALSE(can_attend_packed(plain, plain, at::randn({3, 2, 5})));
  EXPECT_FALSE(can_attend_packed(at::randn({3, 3, 4}), plain, plain));
  EXPECT_ANY_THROW((void)packed_attention(plain, plain, plain, {.sequences = {{0, 3, 0, 4}}}));
  EXPECT_FALSE(can_attend_packed(plain, plain, plain.to(at::kBFloat16)));
  for (const auto type : {at::kDouble, at::kHalf})
    EXPECT_FALSE(can_attend_packed(plain.to(type), plain.to(type), plain.to(type)));
}

// What attention() makes of packed tokens, of the first tokens alone, and of rows without padding.
TEST(Attention, IsLibTorchsInEachLayout) {
  const std::int64_t rows = 3, length = 5, heads = 4, dim = 8;
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const bool is_causal : {false, true}) {
      const auto q = at::randn({rows, length, heads, dim}, type),
                 k = at::randn({rows, length, 2, dim}, type),
                 v = at::randn({rows, length, 2, dim}, type);
      const auto theirs = [&](double dropout) {
        at::manual_seed(8);
        return at::scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2),
                                                v.transpose(1, 2), {}, dropout, is_causal, {}, true)
            .transpose(1, 2)
            .flatten(2);
      };
      const Tokens padded(rows, length, {}, {}),
          packed(1, rows * length, {}, {.begins = {{length, 2 * length}}});
      for (const double dropout : {0.0, 0.3}) {
        const AttentionSpec spec{.dropout = dropout, .mask = {.is_causal = is_causal}};
        at::manual_seed(8);
        const at::Tensor whole = attention(q, k, v, padded, spec);
        EXPECT_TRUE(at::allclose(whole, theirs(dropout), 1e-5, 1e-6));
        at::manual_seed(8);
        const at::Tensor flat =
            attention(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), packed, spec);
        EXPECT_TRUE(at::allclose(flat, theirs(dropout).flatten(0, 1), 1e-5, 1e-6));
      }
      if (is_causal) continue;
      const Tokens kept(
          rows, length,
          at::tensor({1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0}).view({rows, length}), {});
      const auto places = at::tensor({0, 1, 2, 3, 4, 5, 6, 7, 10});
      const auto take = [&](const at::Tensor& all) {
        return all.flatten(0, 1).index_select(0, places);
      };
      const at::Tensor all = attention(take(q), take(k), take(v), kept, {}),
                       first =
                           attention(q.select(1, 0), take(k), take(v), kept, {.first_alone = true});
      EXPECT_TRUE(at::allclose(first, all.index_select(0, at::tensor({0, 5, 8})), 1e-5, 1e-6));
    }
  }
}

}  // namespace
}  // namespace accelerate::detail
