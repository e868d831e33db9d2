// The loops of layers, on each instruction set that this machine has, against LibTorch's steps.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "accelerate/optim/precision/autocast.h"
#include "accelerate/transformers/models/layers/activations.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/kernels/kernels.h"
#include "accelerate/transformers/models/layers/norm_of_sum.h"
#include "accelerate/transformers/models/losses.h"

namespace accelerate::detail {
namespace {

class LayerKernels : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(layer_kernels::choose(GetParam()));
    if (layer_kernels::versions().size() == 1) GTEST_SKIP() << "LibTorch's kernels are in use";
  }
  void TearDown() override {
    layer_kernels::choose(layer_kernels::versions().back());
    at::set_num_threads(threads_);
  }

 private:
  int threads_ = at::get_num_threads();
};

using Outcome = std::vector<at::Tensor>;  // The output, and the gradients.

// --- GELU

Outcome gelu_outcome(const at::Tensor& input, const at::Tensor& by, bool ours) {
  const at::Tensor leaf = input.detach().clone().requires_grad_();
  const at::Tensor output = ours ? gelu_of(leaf) : at::gelu(leaf);
  output.backward(by);
  return {output.detach(), leaf.grad()};
}

TEST_P(LayerKernels, GeluHasLibTorchsValuesAndTheExactSlope) {
  for (const std::int64_t size : {0, 1, 7, 16, 33, 1000, 100003}) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const at::Tensor input = (at::randn({size}) * 3).to(type), by = at::ones({size}, type);
      at::set_num_threads(1);
      const auto ours = gelu_outcome(input, by, true);
      const auto exact = gelu_outcome(input.to(at::kDouble), by.to(at::kDouble), false);
      EXPECT_TRUE(at::equal(ours[0], at::gelu(input)));
      EXPECT_EQ(ours[1].scalar_type(), type);
      const double share = type == at::kFloat ? 0 : 1.01 * std::ldexp(1.0, -8);
      const double most = type == at::kFloat ? 3e-7 : 2e-5;
      EXPECT_TRUE(at::allclose(ours[1].to(at::kDouble), exact[1], share, most)) << size << type;
      at::set_num_threads(2);
      EXPECT_TRUE(at::equal(gelu_outcome(input, by, true)[1], ours[1]));
    }
  }
}

TEST_P(LayerKernels, GeluTakesSpecialValues) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor input = at::tensor({inf, -inf, nan, 0.0, -0.0, 1e30, -1e30, -100.0, 100.0,
                                         -14.0, 13.0, 1e-30, -1e-30, 1e-40})
                                 .to(type);
    const auto ours = gelu_outcome(input, at::ones_like(input), true),
               theirs = gelu_outcome(input, at::ones_like(input), false);
    EXPECT_TRUE(at::allclose(ours[1], theirs[1], 1e-6, 1e-30, /*equal_nan=*/true))
        << ours[1] << theirs[1];
  }
}

TEST_P(LayerKernels, GeluHasASecondDerivative) {
  const auto second = [](const at::Tensor& given, bool ours) {
    const at::Tensor input = given.detach().clone().requires_grad_();
    const at::Tensor output = ours ? gelu_of(input) : at::gelu(input);
    const auto first = torch::autograd::grad({output.square().sum()}, {input}, {}, true, true);
    return torch::autograd::grad({first[0].square().sum()}, {input})[0];
  };
  const at::Tensor input = at::randn({3, 50});
  EXPECT_TRUE(at::allclose(second(input, true).to(at::kDouble),
                           second(input.to(at::kDouble), false), 1e-4, 1e-4));
}

// --- The norm of a sum

struct Sum {
  at::ScalarType x, rest;
  std::int64_t rows, width;
  double p;
};

struct Leaves {
  explicit Leaves(const Sum& sum)
      : x((at::randn({sum.rows, sum.width}, at::kDouble) * 2).to(sum.x)),
        residual(at::randn({sum.rows, sum.width}, at::kDouble).to(sum.rest)),
        weight(at::randn({sum.width}, at::kDouble).to(sum.rest)),
        bias(at::randn({sum.width}, at::kDouble).to(sum.rest)) {}
  at::Tensor x, residual, weight, bias;
};

constexpr double kEpsilon = 1e-5;

torch::nn::LayerNorm norm_with(const at::Tensor& weight, const at::Tensor& bias) {
  torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({weight.size(0)}).eps(kEpsilon));
  norm->weight = weight;
  norm->bias = bias;
  return norm;
}

// By our kernel, or by LibTorch's steps in `type`.
Outcome norm_outcome(const Leaves& given, double p, std::optional<at::ScalarType> steps = {}) {
  std::vector<at::Tensor> leaves;
  for (const auto* leaf : {&given.x, &given.residual, &given.weight, &given.bias})
    leaves.push_back(
        leaf->detach().to(steps.value_or(leaf->scalar_type()), false, true).requires_grad_());
  auto norm = norm_with(leaves[2], leaves[3]);
  at::manual_seed(11);
  const at::Tensor output = steps ? norm(dropout_of(leaves[0], p, p > 0) + leaves[1])
                                  : norm_of_sum(norm, leaves[0], leaves[1], p);
  at::manual_seed(12);
  output.backward(at::randn(output.sizes(), at::kDouble)
                      .to(given.residual.scalar_type())
                      .to(output.scalar_type()));
  Outcome found{output.detach()};
  for (const auto& leaf : leaves) found.push_back(leaf.grad());
  return found;
}

TEST_P(LayerKernels, NormOfASumIsNearLibTorchsSteps) {
  at::manual_seed(1);
  for (const auto& [x, rest] : {std::pair(at::kFloat, at::kFloat),
                                {at::kBFloat16, at::kFloat},
                                {at::kBFloat16, at::kBFloat16}}) {
    for (const std::int64_t width : {9, 16, 33, 384, 1000}) {
      for (const std::int64_t rows : {1, 3, 64, 201}) {
        for (const double p : {0.0, 0.3}) {
          const Leaves leaves({x, rest, rows, width, p});
          const auto ours = norm_outcome(leaves, p), exact = norm_outcome(leaves, p, at::kDouble);
          // bf16 rounds the dropped elements, the sum, the result and each gradient.
          const double share = x == at::kFloat ? 2e-5 : 3e-2;
          for (std::size_t i = 0; i < ours.size(); ++i) {
            EXPECT_EQ(ours[i].scalar_type(), i == 1 ? x : rest);
            const double most = exact[i].abs().max().item<double>();
            EXPECT_LE((ours[i] - exact[i]).abs().max().item<double>(), share * (most + 1))
                << "tensor " << i << ", " << rows << " rows of " << width << ", p " << p << ", "
                << x << " " << rest;
          }
        }
      }
    }
  }
}

// Where LibTorch's steps round, ours rounds too: bf16 tells.
TEST_P(LayerKernels, NormOfASumRoundsAsLibTorchsSteps) {
  const Leaves leaves({at::kBFloat16, at::kFloat, 40, 96, 0.2});
  const auto ours = norm_outcome(leaves, 0.2);
  torch::nn::LayerNorm norm = norm_with(leaves.weight, leaves.bias);
  at::manual_seed(11);
  const at::Tensor theirs = norm(at::dropout(leaves.x, 0.2, true) + leaves.residual);
  EXPECT_TRUE(at::allclose(ours[0], theirs, 1e-5, 2e-6));
}

TEST_P(LayerKernels, NormOfASumIsTheSameWithTwoThreads) {
  const Leaves leaves({at::kFloat, at::kFloat, 777, 130, 0.1});
  at::set_num_threads(1);
  const auto one = norm_outcome(leaves, 0.1);
  at::set_num_threads(2);
  const auto two = norm_outcome(leaves, 0.1);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], two[i])) << i;
}

TEST_P(LayerKernels, NormOfASumHasASecondDerivative) {
  const auto second = [](const Leaves& given, std::optional<at::ScalarType> steps) {
    std::vector<at::Tensor> leaves;
    for (const auto* leaf : {&given.x, &given.residual, &given.weight, &given.bias})
      leaves.push_back(
          leaf->detach().to(steps.value_or(leaf->scalar_type()), false, true).requires_grad_());
    auto norm = norm_with(leaves[2], leaves[3]);
    at::manual_seed(11);
    const at::Tensor x = leaves[0] * leaves[0];
    const at::Tensor output =
        steps ? norm(dropout_of(x, 0.3, true) + leaves[1]) : norm_of_sum(norm, x, leaves[1], 0.3);
    const auto first = torch::autograd::grad({output.pow(3).sum()}, leaves, {}, true, true);
    at::Tensor all;
    for (const auto& gradient : first)
      all = all.defined() ? all + gradient.square().sum() : gradient.square().sum();
    return torch::autograd::grad({all}, leaves);
  };
  const Leaves leaves({at::kFloat, at::kFloat, 6, 20, 0.3});
  const auto ours = second(leaves, {}), exact = second(leaves, at::kDouble);
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(at::allclose(ours[i].to(at::kDouble), exact[i], 1e-3,
                             1e-4 * exact[i].abs().max().item<double>()))
        << i;
}

TEST_P(LayerKernels, NormOfASumKeepsTheTypesOfAutocast) {
  torch::nn::LayerNorm norm = norm_with(at::randn({8}), at::randn({8}));
  const AutocastScope autocast(c10::DeviceType::CPU, at::kBFloat16);
  const at::Tensor x = at::randn({3, 8}).to(at::kBFloat16);
  for (const at::Tensor& residual : {at::randn({3, 8}), at::randn({3, 8}).to(at::kBFloat16)})
    EXPECT_EQ(norm_of_sum(norm, x, residual, 0.1).scalar_type(),
              norm(at::dropout(x, 0.1, true) + residual).scalar_type());
}

// Takes LibTorch's steps for what the kernel does not know.
TEST_P(LayerKernels, NormOfASumTakesAnyTensor) {
  for (const auto& x : {at::randn({4, 8}).t(), at::randn({8, 4}, at::kDouble), at::randn({4}),
                        at::randn({0, 4}), at::randn({2, 8, 4})}) {
    torch::nn::LayerNorm norm = norm_with(at::randn({4}, x.options()), at::randn({4}, x.options()));
    const at::Tensor residual = x.dim() == 3 ? at::randn({8, 4}) : at::randn_like(x);
    EXPECT_TRUE(at::allclose(norm_of_sum(norm, x, residual, 0), norm(x + residual), 1e-5, 1e-5));
  }
  torch::nn::LayerNorm plain(torch::nn::LayerNormOptions({4}).elementwise_affine(false));
  const at::Tensor x = at::randn({3, 4});
  EXPECT_TRUE(at::equal(norm_of_sum(plain, x, x, 0), plain(x + x)));
  EXPECT_TRUE(at::equal(norm_of_sum(plain, x, x, 1), plain(x)));
}

// --- Cross-entropy of many classes

// The loss and its gradient, or with `second` the gradient of the gradient's squares.
Outcome loss_outcome(const at::Tensor& given, const at::Tensor& labels, const at::Tensor& num_items,
                     bool second = false) {
  const at::Tensor logits = given.detach().clone().requires_grad_();
  const at::Tensor loss = cross_entropy(logits, labels, num_items);
  const auto first = torch::autograd::grad({loss}, {logits}, {}, {}, second);
  if (!second) return {loss.detach(), first[0]};
  return {loss.detach(), torch::autograd::grad({first[0].square().sum()}, {logits})[0]};
}

// LibTorch's steps compute fp64.
TEST_P(LayerKernels, CrossEntropyOfManyClassesIsNearLibTorchs) {
  for (const std::int64_t classes : {1024, 2049, 30522}) {
    for (const std::int64_t rows : {1, 3, 17}) {
      const at::Tensor logits = at::randn({rows, classes}) * 8;
      at::Tensor labels = at::randint(classes, {rows}, at::kLong);
      if (rows > 1) labels[1] = kIgnoredLabel;
      for (const auto& num_items : {at::Tensor(), at::tensor(9)}) {
        for (const bool second : {false, true}) {
          at::set_num_threads(1);
          const auto ours = loss_outcome(logits, labels, num_items, second);
          const auto exact = loss_outcome(logits.to(at::kDouble), labels, num_items, second);
          EXPECT_TRUE(at::allclose(ours[0].to(at::kDouble), exact[0], 1e-7, 1e-6)) << ours[0];
          EXPECT_TRUE(at::allclose(ours[1].to(at::kDouble), exact[1], 2e-5, 1e-7)) << second;
          at::set_num_threads(2);
          const auto again = loss_outcome(logits, labels, num_items, second);
          EXPECT_TRUE(at::equal(again[0], ours[0]) && at::equal(again[1], ours[1]));
        }
      }
    }
  }
}

TEST_P(LayerKernels, CrossEntropyOfManyClassesTakesSpecialValues) {
  const double inf = std::numeric_limits<double>::infinity();
  const at::Tensor labels = at::tensor({2, 3000}, at::kLong);
  for (const double odd : {inf, -inf, std::nan(""), -1e30, 1e30}) {
    for (const bool whole : {false, true}) {
      at::Tensor logits = at::randn({2, 4000});
      logits[1].slice(0, whole ? 0 : 2048, whole ? 4000 : 2999).fill_(odd);
      const auto ours = loss_outcome(logits, labels, {});
      const at::Tensor leaf = logits.detach().clone().requires_grad_();
      const at::Tensor loss = at::cross_entropy_loss(leaf, labels);
      loss.backward();
      EXPECT_TRUE(at::allclose(ours[0], loss.detach(), 1e-5, 1e-6, true)) << odd << whole;
      EXPECT_TRUE(at::allclose(ours[1], leaf.grad(), 1e-5, 1e-7, true)) << odd << whole;
    }
  }
  const at::Tensor none = at::full({2}, kIgnoredLabel, at::kLong);
  EXPECT_TRUE(loss_outcome(at::randn({2, 4000}), none, {})[0].isnan().item<bool>());
  EXPECT_TRUE(cross_entropy(at::randn({0, 4000}), at::empty({0}, at::kLong)).isnan().item<bool>());
}

// --- Dropout

TEST_P(LayerKernels, DropoutMultipliesAsLibTorch) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    at::Tensor input = at::randn({100003}).to(type);
    input.slice(0, 0, 1000, 3).fill_(std::numeric_limits<double>::infinity());
    input.slice(0, 0, 1000, 5).fill_(std::nan(""));
    at::manual_seed(3);
    const at::Tensor ours = dropout_of(input, 0.3, true);
    at::manual_seed(3);
    EXPECT_TRUE(at::allclose(ours, at::dropout(input, 0.3, true), 0, 0, /*equal_nan=*/true));
  }
}

TEST_P(LayerKernels, MasksAreLibTorchsDraws) {
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const std::int64_t size : {1, 311, 312, 3744, 4099, 14975, 14976, 14977, 400001}) {
      const auto drawn = [&](bool ours) {
        at::manual_seed(17);
        (void)at::rand({size % 2});  // Leaves the generator at an odd place.
        const at::Tensor like = at::empty({size}), mask = at::empty({size}, at::kBool);
        const at::Tensor found = ours ? bernoulli_mask(like, 0.1) : mask.bernoulli_(0.1);
        return std::pair(found, at::rand({3}));
      };
      const auto ours = drawn(true), theirs = drawn(false);
      EXPECT_TRUE(at::equal(ours.first, theirs.first)) << size;
      EXPECT_TRUE(at::equal(ours.second, theirs.second)) << size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, LayerKernels, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto name : layer_kernels::versions())
                             names.emplace_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

// Engines that fetch weights on first touch see the operators that read them, forward and backward.
TEST(LayerOperators, AreSeenByObservers) {
  if (!layer_kernels::are_vectorised()) GTEST_SKIP() << "LibTorch's kernels are in use";
  static std::string seen;
  seen.clear();
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function)
                                     -> std::unique_ptr<at::ObserverContext> {
        seen +=
            std::string(function.name()) + "(" + std::to_string(function.inputs().size()) + ") ";
        return nullptr;
      }).needsInputs(true));
  (void)norm_outcome(Leaves({at::kFloat, at::kFloat, 3, 8, 0.1}), 0.1);
  (void)gelu_outcome(at::randn({9}), at::randn({9}), true);
  at::removeCallback(handle);
  for (const char* name : {"accelerate::norm_of_sum(7)", "accelerate::norm_of_sum_backward(7)",
                           "accelerate::gelu_backward(2)"})
    EXPECT_NE(seen.find(name), std::string::npos) << name << " is missing among " << seen;
}

TEST(LayerOperators, HaveVersionsInOrder) {
  EXPECT_EQ(layer_kernels::versions().front(), "baseline");
  EXPECT_FALSE(layer_kernels::choose("avx1024"));
}

}  // namespace
}  // namespace accelerate::detail
