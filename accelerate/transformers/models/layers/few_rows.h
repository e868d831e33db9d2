// x·Wᵀ + b for a few rows, as when text is generated.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace accelerate::detail {

/// The most rows for which most of the time goes into reading the weights.
inline constexpr std::int64_t kFewRows = 8;

/// Whether linear_of_few_rows() is faster for these tensors: fp32 on a CPU with AVX2, contiguous
/// weights, at most kFewRows rows, in inference mode, without autocast. Training and evaluation use
/// LibTorch alone, so that they agree to the bit.
[[nodiscard]] bool are_few_rows(const at::Tensor& input, const at::Tensor& weight,
                                const at::Tensor& bias);

/// input: fp32 {…, in}; weight: fp32 {out, in}; bias: fp32 {out} or undefined. Returns {…, out}.
/// Calls the operator "accelerate::linear_of_few_rows", so that profilers and engines that fetch
/// weights see it. Without AVX2 computes at::linear. Cost: reads the weights once, at the bandwidth
/// of the memory. BLAS on some CPUs reaches half of that for one row and a quarter for two.
[[nodiscard]] at::Tensor linear_of_few_rows(const at::Tensor& input, const at::Tensor& weight,
                                            const at::Tensor& bias);

}  // namespace accelerate::detail
