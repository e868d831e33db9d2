// Products of a few rows against LibTorch's.
#include "accelerate/transformers/models/layers/linear.h"

#include <ATen/Context.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <string>

#include "accelerate/optim/precision/autocast.h"

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

TEST(FewRows, AreLibTorchsProducts) {
  at::manual_seed(2);
  const c10::InferenceMode inference;
  for (const std::int64_t in : {1, 3, 8, 31, 33, 64, 100, 576}) {
    for (const std::int64_t out : {1, 7, 150}) {
      const at::Tensor weight = at::randn({out, in}), bias = at::randn({out});
      for (std::int64_t rows = 0; rows <= detail::kFewRows; ++rows) {
        const at::Tensor input = at::randn({rows, in});
        ASSERT_EQ(are_few_rows(input, weight, bias), has_avx2());
        const at::Tensor want = at::linear(input, weight, bias);
        EXPECT_TRUE(linear_of_few_rows(input, weight, bias).allclose(want, 1e-5, 1e-4))
            << rows << " rows of " << in << ", " << out << " outputs";
        EXPECT_TRUE(linear_of_few_rows(input, weight, {}).allclose(want - bias, 1e-5, 1e-4));
      }
    }
  }
}

TEST(FewRows, KeepTheShapeOfTheInput) {
  const c10::InferenceMode inference;
  const at::Tensor weight = at::randn({5, 6}), input = at::randn({6, 2, 3}).permute({1, 2, 0});
  const at::Tensor found = linear_of_few_rows(input, weight, {});
  EXPECT_EQ(found.sizes(), (std::vector<std::int64_t>{2, 3, 5}));
  EXPECT_TRUE(found.allclose(at::linear(input, weight), 1e-5, 1e-5));
}

TEST(FewRows, AreForInferenceInFp32OnACpu) {
  const at::Tensor weight = at::randn({5, 6}), input = at::randn({2, 6});
  EXPECT_FALSE(are_few_rows(input, weight, {}));
  const c10::InferenceMode inference;
  EXPECT_EQ(are_few_rows(input, weight, {}), has_avx2());
  EXPECT_FALSE(are_few_rows(at::randn({detail::kFewRows + 1, 6}), weight, {}));
  EXPECT_FALSE(are_few_rows(input.to(at::kBFloat16), weight.to(at::kBFloat16), {}));
  EXPECT_FALSE(are_few_rows(input, weight.t().contiguous().t(), {}));
  EXPECT_FALSE(are_few_rows(at::randn({2, 5}), weight, {}));
  const AutocastScope autocast(c10::DeviceType::CPU, at::kBFloat16);
  EXPECT_FALSE(are_few_rows(input, weight, {}));
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
