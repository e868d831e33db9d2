// Attention of many short sequences at once, on a CPU, with dropout.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accelerate/transformers/models/layers/kernels/kernel_table.h"

namespace accelerate::detail {

/// What packed_attention() takes besides its tensors.
struct PackedAttention {
  /// packed_attention() finds `first_weight`.
  std::vector<layer_kernels::SequencePlace> sequences = {};
  double scale = 1;        ///< The factor of scores.
  double softcap = 0;      ///< Scores become softcap · tanh(score / softcap); 0: they stay.
  double dropout = 0;      ///< The share of weights that is dropped, below 1.
  bool is_causal = false;  ///< Only for as many queries as keys.
};

/// Whether packed_attention() computes these tensors: fp32 or bf16 on a CPU with AVX2, all of one
/// dtype, not to be narrowed by autocast. Then their shapes fit each other.
[[nodiscard]] bool can_attend_packed(const at::Tensor& query, const at::Tensor& key,
                                     const at::Tensor& value);

/// Returns dropout(softmax(cap(query · keyᵀ · scale))) · value of each sequence and head, {tokens, heads,
/// dim}. query: {tokens, heads, dim}; key, value: {tokens, key heads, dim}; heads is a multiple of
/// key heads. Each query belongs to one sequence, which has keys, and each key to at most one.
/// Draws what LibTorch's dropout draws for weights {heads, queries, keys}, sequence by sequence.
/// Computes in fp32 and rounds once. Any number of threads gives the same bits. Differentiable
/// twice.
/// Cost: for backward it keeps a number for each query and head, and with dropout a byte for each
/// weight. Source: Dao et al. 2022, FlashAttention, for what backward computes again.
[[nodiscard]] at::Tensor packed_attention(const at::Tensor& query, const at::Tensor& key,
                                          const at::Tensor& value, PackedAttention spec);

}  // namespace accelerate::detail
