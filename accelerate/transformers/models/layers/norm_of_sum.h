#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/normalization.h>

namespace accelerate::detail {

/// Returns norm(dropout_of(x, p, true) + residual), with derivatives of any order. x, residual:
/// {…, H}; the result has the shape of x and the type that LibTorch's steps give. p: 0 for no
/// dropout. Draws what dropout_of() draws. On a CPU with AVX2 one kernel computes all steps where x
/// and the rest have fp32, or bf16, or where x has bf16 and the rest fp32, as under autocast.
/// Values differ in rounding. Cost: reads x and the residual once; for backward it keeps the sum
/// and one byte per element, as the steps do.
[[nodiscard]] at::Tensor norm_of_sum(torch::nn::LayerNorm& norm, const at::Tensor& x,
                                     const at::Tensor& residual, double p);

}  // namespace accelerate::detail
