// x·Wᵀ + b of a few rows, as generating text takes it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace accelerate::detail {

/// The most rows for which reading the weights is what takes the time.
inline constexpr std::int64_t kFewRows = 8;

/// Whether linear_of_few_rows() gains on these: fp32 on a CPU with AVX2, weights row by row, at
/// most kFewRows rows, in inference mode. Training and evaluation compute by LibTorch alone, so
/// that they agree to the bit.
[[nodiscard]] bool are_few_rows(const at::Tensor& input, const at::Tensor& weight,
                                const at::Tensor& bias);

/// input: fp32 {…, in}; weight: fp32 {out, in}; bias: fp32 {out} or undefined. Returns {…, out}.
/// An operator of its own, "accelerate::linear_of_few_rows", so that profilers and engines that
/// fetch weights see it. Reads the weights once at what memory gives, where BLAS on some CPUs
/// reaches half of it for one row and a quarter for two. Without AVX2: at::linear.
[[nodiscard]] at::Tensor linear_of_few_rows(const at::Tensor& input, const at::Tensor& weight,
                                            const at::Tensor& bias);

}  // namespace accelerate::detail
