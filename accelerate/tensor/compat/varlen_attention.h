// Attention of sequences that stand one behind the other, by LibTorch's own kernels for a GPU. Its
// public operator takes rows of one length only. The kernels are internals of LibTorch: compiled
// with versions 2.11 to 2.13, run on a GPU with 2.11. Only this file deals with their schemas.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace accelerate::compat {

/// Where sequences begin among the tokens that stand one behind the other.
struct SequenceBounds {
  at::Tensor starts;         ///< int32 {sequences + 1} on the GPU: 0, …, the number of tokens.
  std::int64_t longest = 0;  ///< The number of tokens of the longest sequence.
};

struct VarlenAttentionOptions {
  double dropout = 0;
  bool is_causal = false;            ///< Only if queries and keys have the same bounds.
  std::optional<double> scale = {};  ///< The factor of scores; 1 / √dim if not given.
};

/// Returns softmax(query · keyᵀ · scale) · value, each sequence by itself, in one kernel.
/// query: {queries, heads, dim}; key, value: {keys, key heads, dim}; heads is a multiple of key
/// heads. Returns {queries, heads, dim}, with gradients. Returns nothing where LibTorch's choice for
/// rows of one length would be another kernel than flash or memory-efficient attention: on a CPU,
/// for fp64, for dimensions that the kernels do not take, if the user switched them off. Source:
/// Dao 2023; `aten/src/ATen/native/transformers/cuda/attention.cu`.
[[nodiscard]] std::optional<at::Tensor> varlen_attention(const at::Tensor& query,
                                                         const at::Tensor& key,
                                                         const at::Tensor& value,
                                                         const SequenceBounds& queries,
                                                         const SequenceBounds& keys,
                                                         const VarlenAttentionOptions& options);

}  // namespace accelerate::compat
