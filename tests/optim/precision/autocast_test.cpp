#include "accelerate/optim/precision/autocast.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

at::ScalarType matmul_dtype() {
  const auto x = torch::ones({2, 2});
  return torch::mm(x, x).scalar_type();
}

TEST(Autocast, ComputesInTheChosenTypeInsideTheScopeOnly) {
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    {
      const AutocastScope scope(at::kCPU, dtype);
      EXPECT_EQ(matmul_dtype(), dtype);
      {
        const AutocastScope off(at::kCPU, dtype, {.enabled = false});
        EXPECT_EQ(matmul_dtype(), at::kFloat);
      }
      EXPECT_EQ(matmul_dtype(), dtype);
    }
    EXPECT_EQ(matmul_dtype(), at::kFloat);
  }
}

TEST(Autocast, PutsBackWhatItFoundAlsoAfterAnException) {
  const auto dtype_before = at::autocast::get_autocast_dtype(at::kCPU);
  try {
    const AutocastScope scope(at::kCPU, at::kHalf, {.cache_enabled = false});
    EXPECT_FALSE(at::autocast::is_autocast_cache_enabled());
    throw DataError("no batch");
  } catch (const DataError&) {
  }
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), dtype_before);
}

TEST(Autocast, WithoutATypeIsNothing) {
  const AutocastScope scope(at::kCPU, autocast_dtype(MixedPrecision::no));
  EXPECT_EQ(matmul_dtype(), at::kFloat);
}

TEST(Autocast, RefusesFp8ByName) {
  try {
    (void)autocast_dtype(MixedPrecision::fp8);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("allowed is one of no, fp16, bf16"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace accelerate
