// Dropout that keeps one byte an element for backward, where LibTorch keeps its factors in the
// element type.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::detail {

/// at::dropout, with its draws and its values: while training each element is zero with
/// probability `p`, else times 1 / (1 - p). input: any shape, floating. Source: Srivastava et al.
/// 2014.
[[nodiscard]] at::Tensor dropout_of(const at::Tensor& input, double p, bool training);

/// dropout_of(weights, p, true) · values, on the CPU, 0 < p < 1. weights: {…, queries, keys},
/// dense; values: {…, keys, dim}. Keeps `weights` for backward, which softmax keeps anyway, and
/// drops them there once more.
[[nodiscard]] at::Tensor dropped_product(const at::Tensor& weights, const at::Tensor& values,
                                         double p);

}  // namespace accelerate::detail
