// Dropout that keeps one byte an element for backward, where LibTorch keeps its factors in the
// element type.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::detail {

/// at::dropout, with its draws, values and gradients to the bit: while training each element is zero with
/// probability `p`, else times 1 / (1 - p). input: any shape, floating. Source: Srivastava et al.
/// 2014.
[[nodiscard]] at::Tensor dropout_of(const at::Tensor& input, double p, bool training);

/// What dropped_attention() takes beside its tensors.
struct DroppedAttention {
  double scale;            ///< Of scores.
  double p;                ///< 0 < p < 1.
  at::Tensor hidden = {};  ///< {queries, keys}, true where a query may not look; or undefined.
};

/// dropout_of(softmax(query · keyᵀ · scale), p, true) · value, on the CPU. query: {…, queries,
/// dim}, key and value: {…, keys, dim}, fp32 or fp64. Each query sees a key at least. For backward
/// it keeps the weights and one byte each; LibTorch's steps keep scaled copies of query and key,
/// and the weights three times. Draws what they draw; sums differ from theirs in rounding.
[[nodiscard]] at::Tensor dropped_attention(const at::Tensor& query, const at::Tensor& key,
                                           const at::Tensor& value, const DroppedAttention& spec);

}  // namespace accelerate::detail
