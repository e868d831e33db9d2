// Scaled dot-product attention.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/models/layers/tokens.h"

namespace accelerate::detail {

/// How attention is computed: `sdpa` by LibTorch's fused kernels, `eager` step by step, which also
/// gives the weights.
enum class AttentionKind { sdpa, eager };

/// Throws UsageError for another word than "sdpa" and "eager".
[[nodiscard]] AttentionKind attention_kind_of(const std::string& name);

/// Which keys a query sees.
struct AttentionMask {
  /// Booleans, true where it may look, or what is added to scores. Of padded tokens: {rows or 1, 1,
  /// queries or 1, keys}; of packed ones: {longest, longest}, of which each row takes its corner.
  /// Undefined: all keys, or what `is_causal` says.
  at::Tensor values = {};
  /// Of as many queries as keys, without `values`: a query sees its own place and those before.
  bool is_causal = false;
};

/// Each token sees itself and the tokens before it, of them `window` at most with itself, as far as
/// the mask of `tokens` allows. Source: `masking_utils.py` of Transformers.
[[nodiscard]] AttentionMask causal_mask(const Tokens& tokens, std::optional<std::int64_t> window,
                                        c10::Device device);

struct AttentionSpec {
  AttentionKind kind = AttentionKind::sdpa;
  double dropout = 0;                ///< The share of weights that are dropped; 0 in evaluation.
  std::optional<double> scale = {};  ///< Of scores; 1 / √dim if not given.
  AttentionMask mask = {};
  /// Whether there is one query a row, of its first token: query is then {rows, heads, dim}, and so
  /// is the result {rows, heads · dim}.
  bool first_alone = false;
  /// Where the weights go, {rows, heads, queries, keys}, if they are asked for; only of `eager`.
  std::vector<at::Tensor>* weights = nullptr;
};

/// softmax(query · keyᵀ · scale + mask) · value, row by row where the tokens are packed.
/// query: {…, heads, dim}, key and value: {…, key heads, dim} in the layout of `tokens`, the heads
/// a multiple of the key heads. Returns {…, heads · dim}. Source: Vaswani et al. 2017;
/// `sdpa_attention.py` and `eager_attention_forward` of Transformers.
[[nodiscard]] at::Tensor attention(const at::Tensor& query, const at::Tensor& key,
                                   const at::Tensor& value, const Tokens& tokens,
                                   const AttentionSpec& spec);
/// The same of padded tokens whose keys and values come from a cache: {rows, key heads, keys, dim}.
[[nodiscard]] at::Tensor cached_attention(const at::Tensor& query, const at::Tensor& key,
                                          const at::Tensor& value, const AttentionSpec& spec);

}  // namespace accelerate::detail
