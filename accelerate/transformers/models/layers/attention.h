// Scaled dot-product attention.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/models/layers/key_value_cache.h"
#include "accelerate/transformers/models/layers/tokens.h"

namespace accelerate::detail {

/// How attention is computed: `sdpa` by LibTorch's fused kernels, `eager` step by step, which also
/// gives the weights.
enum class AttentionKind { sdpa, eager };

/// Throws UsageError for any word but "sdpa" and "eager".
[[nodiscard]] AttentionKind attention_kind_of(const std::string& name);

/// Which keys a query sees.
struct AttentionMask {
  /// Booleans, true where a query may look, or numbers that are added to scores. For padded tokens:
  /// {rows or 1, 1 or heads, queries or 1, keys}. For packed tokens: {…, longest, longest}; each
  /// sequence uses its upper left corner. Undefined: all keys, or as `is_causal` says.
  at::Tensor values = {};
  /// A query sees its own place and the places before it. Only without `values`, and for as many
  /// queries as keys, or for a single query, which then sees all keys.
  bool is_causal = false;
};

/// Returns the mask with which each token sees itself and the tokens before it, as far as the mask
/// of `tokens` allows. With a `window` it sees at most that many tokens, itself included. Source:
/// `masking_utils.py` of Transformers.
[[nodiscard]] AttentionMask causal_mask(const Tokens& tokens, std::optional<std::int64_t> window,
                                        c10::Device device);

/// Returns the mask with which each token sees at most `reach` tokens on either side, as far as the
/// mask of `tokens` allows. Source: `masking_utils.py` of Transformers.
[[nodiscard]] AttentionMask local_mask(const Tokens& tokens, std::int64_t reach,
                                       c10::Device device);

/// Returns `mask` with numbers that are added to scores as well. bias: {1, heads, queries, keys}; for
/// packed tokens {1, heads, longest, longest}. Has derivatives of `bias`.
[[nodiscard]] AttentionMask with_bias(const AttentionMask& mask, const at::Tensor& bias);

struct AttentionSpec {
  AttentionKind kind = AttentionKind::sdpa;
  double dropout = 0;                ///< The share of weights that is dropped; 0 in evaluation.
  std::optional<double> scale = {};  ///< The factor of scores; 1 / √dim if not given.
  /// Scores become softcap · tanh(score / softcap) before the mask. Computed step by step, except where
  /// all sequences of a batch go to one kernel on a CPU.
  std::optional<double> softcap = {};
  AttentionMask mask = {};
  /// If set: returns what is added to the scaled scores of some sequences of one length, {rows or 1,
  /// heads, queries, keys}. query: {rows, heads, queries, dim}, from the first token on; key: {rows,
  /// key heads, keys, dim}.
  std::function<at::Tensor(const at::Tensor& query, const at::Tensor& key)> bias_of = {};
  /// Whether each row has one query only, of its first token. Then query is {rows, heads, dim}, and
  /// the result is {rows, heads · dim}.
  bool first_alone = false;
  /// Gets the weights, {rows, heads, queries, keys}, if they are asked for; only with `eager`.
  std::vector<at::Tensor>* weights = nullptr;
  /// If not null: gets the keys and values as those of `layer`, and gives the tokens before them.
  /// The tokens are then padded.
  KeyValueCache* cache = nullptr;
  std::size_t layer = 0;
};

/// Returns softmax(query · keyᵀ · scale + mask) · value, by sequences if the tokens are packed.
/// query: {…, heads, dim}, key and value: {…, key heads, dim}, in the layout of `tokens`. heads is
/// a multiple of key heads. Returns {…, heads · dim}. Source: Vaswani et al. 2017;
/// `sdpa_attention.py` and `eager_attention_forward` of Transformers.
[[nodiscard]] at::Tensor attention(const at::Tensor& query, const at::Tensor& key,
                                   const at::Tensor& value, const Tokens& tokens,
                                   const AttentionSpec& spec);

/// What the tokens of another text offer to queries, in the layout of `tokens`.
struct ReadText {
  at::Tensor key, value;  ///< {…, key heads, dim}
  const Tokens& tokens;
};

/// As attention(), where each row of `tokens` sees all that the row of `read` offers. Both may have
/// another layout. Each row is one sequence. spec: without a mask. With spec.cache, `read` is padded,
/// and the cache is not changed.
[[nodiscard]] at::Tensor cross_attention(const at::Tensor& query, const Tokens& tokens,
                                         const ReadText& read, const AttentionSpec& spec);

}  // namespace accelerate::detail
