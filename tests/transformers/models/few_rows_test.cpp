// Products of a few rows against LibTorch's in fp64.
#include "accelerate/transformers/models/layers/linear.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "accelerate/optim/precision/autocast.h"
#include "accelerate/transformers/models/layers/rotary.h"

namespace accelerate {
namespace {

using detail::are_few_rows;
using detail::linear_of_few_rows;

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

constexpr auto kTypes = {at::kFloat, at::kBFloat16};

// Computes in fp64, and how far a sum in fp32 may be from it, before it is rounded to `type`.
struct Reference {
  at::Tensor exact, tolerance;
};

Reference reference_of(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  const auto wide = [](const at::Tensor& narrow) { return narrow.to(at::kDouble); };
  const at::Tensor none = bias.defined() ? wide(bias) : at::Tensor();
  const at::Tensor exact = at::linear(wide(input), wide(weight), none);
  const at::Tensor sizes =
      at::linear(wide(input).abs(), wide(weight).abs(), none.defined() ? none.abs() : at::Tensor());
  constexpr double kFloatEpsilon = 0x1p-24;
  // A sum in 16 lanes of at most 600 / 16 products, 4 levels of a tree, a rest and the bias.
  const double roundings = 64;
  const double last = weight.scalar_type() == at::kFloat ? 0 : 0x1p-8;  // Half a unit, of bf16.
  return {exact, sizes * (roundings * kFloatEpsilon) + exact.abs() * last + 1e-40};
}

void expect_exact(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  const auto [exact, tolerance] = reference_of(input, weight, bias);
  const at::Tensor found = linear_of_few_rows(input, weight, bias);
  EXPECT_EQ(found.scalar_type(), weight.scalar_type());
  EXPECT_TRUE(((found.to(at::kDouble) - exact).abs() <= tolerance).all().item<bool>())
      << weight.scalar_type() << " " << input.sizes() << " times " << weight.sizes();
}

TEST(FewRows, AreProductsRoundedOnce) {
  at::manual_seed(2);
  const c10::InferenceMode inference;
  for (const auto type : kTypes) {
    for (const std::int64_t in : {1, 3, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 100, 576}) {
      for (const std::int64_t out : {1, 7, 150}) {
        const at::Tensor weight = at::randn({out, in}).to(type), bias = at::randn({out}).to(type);
        for (std::int64_t rows = 0; rows <= detail::kFewRows; ++rows) {
          const at::Tensor input = at::randn({rows, in}).to(type);
          ASSERT_EQ(are_few_rows(input, weight, bias), has_avx2());
          expect_exact(input, weight, bias);
          expect_exact(input, weight, {});
        }
      }
    }
  }
}

// Threads divide the outputs; blocks of outputs divide what a thread has.
TEST(FewRows, AreProductsInAnyBlockAndThread) {
  at::manual_seed(3);
  const c10::InferenceMode inference;
  for (const auto type : kTypes) {
    const at::Tensor weight = at::randn({1031, 577}).to(type), bias = at::randn({1031}).to(type);
    for (const std::int64_t rows : {1, 2, 3, 8})
      expect_exact(at::randn({rows, 577}).to(type), weight, bias);
  }
}

// A view may begin anywhere in memory.
TEST(FewRows, ReadWeightsAndRowsAtAnyAddress) {
  at::manual_seed(4);
  const c10::InferenceMode inference;
  for (const auto type : kTypes) {
    for (const std::int64_t begin : {1, 3, 5}) {
      const at::Tensor weight = at::randn({7 * 65 + 8}).to(type).narrow(0, begin, 7 * 65),
                       input = at::randn({2 * 65 + 8}).to(type).narrow(0, begin, 2 * 65);
      expect_exact(input.view({2, 65}), weight.view({7, 65}), {});
    }
  }
}

TEST(FewRows, HaveNoOutputsIfThereAreNoWeights) {
  const c10::InferenceMode inference;
  for (const auto type : kTypes) {
    const at::Tensor weight = at::empty({0, 6}, type), input = at::empty({2, 6}, type);
    EXPECT_EQ(linear_of_few_rows(input, weight, {}).sizes(), (std::vector<std::int64_t>{2, 0}));
  }
}

// `place`: in the vectors, and in the rest behind them.
TEST(FewRows, KeepInfinitiesAndNan) {
  const c10::InferenceMode inference;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const auto type : kTypes) {
    for (const std::int64_t place : {0, 1, 31, 32, 65}) {
      for (const float value : {kInfinity, -kInfinity, std::nanf("")}) {
        at::Tensor input = at::ones({2, 66}, type), weight = at::ones({3, 66}, type);
        weight[1][place] = value;
        input[1][place] = -1;
        const at::Tensor want = at::linear(input.to(at::kFloat), weight.to(at::kFloat)),
                         found = linear_of_few_rows(input, weight, {}).to(at::kFloat);
        EXPECT_TRUE(found.allclose(want, 0, 0, /*equal_nan=*/true))
            << type << " " << value << " at " << place << ": " << found;
        input[0][place] = 0;  // 0 · ∞ is NaN.
        EXPECT_TRUE(linear_of_few_rows(input, weight, {})[0][1].isnan().item<bool>());
      }
    }
  }
}

TEST(FewRows, KeepSignsOfZeroAndDenormals) {
  const c10::InferenceMode inference;
  for (const auto type : kTypes) {
    const float tiny = 0x1p-130F;  // Below the least normal number of fp32 and bf16.
    const at::Tensor weight = at::full({1, 40}, tiny, type), input = at::ones({1, 40}, type);
    EXPECT_EQ(linear_of_few_rows(input, weight, {}).item<float>(), 40 * tiny);
    const at::Tensor zero = at::full({1}, -0.0F, type);
    const auto product = [&](const at::Tensor& bias) {
      return linear_of_few_rows(input * -0.0F, at::ones({1, 40}, type), bias).item<float>();
    };
    EXPECT_EQ(product(zero), 0.0F);
    // Sums begin with +0, as LibTorch's do.
    EXPECT_EQ(std::signbit(product({})),
              std::signbit(at::linear(input * -0.0F, at::ones({1, 40}, type)).item<float>()));
  }
}

// Half way between two numbers of bf16, the even one is taken; the bias counts before.
TEST(FewRows, RoundToTheEvenNumberOfBf16) {
  const c10::InferenceMode inference;
  const auto product = [](float first, float second, float bias) {
    return linear_of_few_rows(at::ones({1, 2}, at::kBFloat16),
                              at::tensor({first, second}).to(at::kBFloat16).view({1, 2}),
                              at::tensor({bias}).to(at::kBFloat16))
        .item<float>();
  };
  EXPECT_EQ(product(1, 0x1p-8F, 0), 1);
  EXPECT_EQ(product(1 + 0x1p-7F, 0x1p-8F, 0), 1 + 0x1p-6F);
  EXPECT_EQ(product(1, 0x1p-8F, 0x1p-20F), 1 + 0x1p-7F);
}

TEST(FewRows, KeepTheShapeOfTheInput) {
  const c10::InferenceMode inference;
  for (const auto type : kTypes) {
    const at::Tensor weight = at::randn({5, 6}).to(type),
                     input = at::randn({6, 2, 3}).to(type).permute({1, 2, 0});
    EXPECT_EQ(linear_of_few_rows(input, weight, {}).sizes(), (std::vector<std::int64_t>{2, 3, 5}));
    expect_exact(input, weight, {});
  }
}

TEST(FewRows, AreForInferenceInOneTypeOnACpu) {
  const at::Tensor weight = at::randn({5, 6}), input = at::randn({2, 6});
  EXPECT_FALSE(are_few_rows(input, weight, {}));
  const c10::InferenceMode inference;
  EXPECT_EQ(are_few_rows(input, weight, {}), has_avx2());
  EXPECT_FALSE(are_few_rows(at::randn({detail::kFewRows + 1, 6}), weight, {}));
  EXPECT_EQ(are_few_rows(input.to(at::kBFloat16), weight.to(at::kBFloat16), {}), has_avx2());
  EXPECT_FALSE(are_few_rows(input, weight.to(at::kBFloat16), {}));
  EXPECT_FALSE(are_few_rows(input, weight, at::zeros({5}, at::kBFloat16)));
  EXPECT_FALSE(are_few_rows(input.to(at::kHalf), weight.to(at::kHalf), {}));
  EXPECT_FALSE(are_few_rows(input, weight.t().contiguous().t(), {}));
  EXPECT_FALSE(are_few_rows(at::randn({2, 5}), weight, {}));
  const AutocastScope autocast(c10::DeviceType::CPU, at::kBFloat16);
  EXPECT_FALSE(are_few_rows(input, weight, {}));
}

// In inference mode few heads are rotated in one pass, to the same bits.
TEST(FewRows, AreRotatedAsByOperators) {
  at::manual_seed(5);
  for (const auto type : kTypes) {
    for (const auto& [rows, tokens, positions] :
         {std::array<std::int64_t, 3>{1, 2, 1}, {3, 2, 3}, {3, 2, 1}, {3, 1, 1}, {1, 1, 1}}) {
      const at::Tensor heads = at::randn({rows, tokens, 3, 70}).to(type) * 100,
                       angles = at::randn({positions, tokens, 1, 70}) * 3;
      const detail::Rotary::Angles both{angles.cos().to(type), angles.sin().to(type)};
      const at::Tensor want = detail::rotate(heads, both);
      const c10::InferenceMode inference;
      EXPECT_TRUE(at::equal(detail::rotate(heads, both), want)) << type << " " << positions;
    }
  }
}

// Engines that fetch weights on first touch see every operator and what it reads.
TEST(FewRows, AreAnOperatorThatObserversSee) {
  static std::string seen;
  seen.clear();
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        seen += std::string(function.name()) + " ";
        return nullptr;
      }));
  detail::Linear layer(6, 5);
  {
    const c10::InferenceMode inference;
    (void)layer(at::randn({1, 6}));
  }
  at::removeCallback(handle);
  const bool saw = seen.find("accelerate::linear_of_few_rows") != std::string::npos;
  EXPECT_EQ(saw, has_avx2()) << seen;
}

}  // namespace
}  // namespace accelerate
