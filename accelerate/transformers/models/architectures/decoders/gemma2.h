// Gemma 2, and the parts of it that Gemma 3 shares. Modules have the names that they have in
// Transformers. Source: Gemma Team 2024; `modeling_gemma2.py` of Transformers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/models/architecture.h"
#include "accelerate/transformers/models/layers/rotary.h"

namespace accelerate::detail {

/// The keys of config.json, with Transformers' defaults for Gemma 2. Rotary reads the keys of
/// rotary embeddings.
struct GemmaConfig {
  std::int64_t vocab_size = 256000;
  std::int64_t hidden_size = 2304;
  std::int64_t intermediate_size = 9216;
  std::int64_t num_hidden_layers = 26;
  std::int64_t num_attention_heads = 8;
  std::int64_t num_key_value_heads = 4;
  std::int64_t head_dim = 256;
  std::string hidden_activation = "gelu_pytorch_tanh";
  std::int64_t max_position_embeddings = 8192;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  std::optional<std::int64_t> pad_token_id = 0;
  bool tie_word_embeddings = true;
  bool attention_bias = false;
  std::optional<double> attention_dropout = 0;
  std::int64_t query_pre_attn_scalar = 256;  ///< Scores are divided by its root.
  std::optional<std::int64_t> sliding_window = 4096;
  /// "full_attention" or "sliding_attention" for each layer. If empty, each layer whose number from
  /// 1 is a multiple of sliding_window_pattern has no window.
  std::vector<std::string> layer_types = {};
  std::int64_t sliding_window_pattern = 2;  ///< Gemma 3 only: Gemma 2 reads no such key.
  /// Logits, and scores before softmax, become cap · tanh(x / cap).
  std::optional<double> final_logit_softcapping = 30, attn_logit_softcapping = 50;

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("vocab_size", self.vocab_size, limits::kWords);
    visit("hidden_size", self.hidden_size, limits::kWidth);
    visit("intermediate_size", self.intermediate_size, limits::kInner);
    visit("num_hidden_layers", self.num_hidden_layers, limits::kLayers);
    visit("num_attention_heads", self.num_attention_heads, limits::kHeads);
    visit("num_key_value_heads", self.num_key_value_heads, limits::kHeads);
    visit("head_dim", self.head_dim, limits::kWidth);
    visit("hidden_activation", self.hidden_activation);
    visit("max_position_embeddings", self.max_position_embeddings, limits::kTokens);
    visit("initializer_range", self.initializer_range, limits::kDeviation);
    visit("rms_norm_eps", self.rms_norm_eps, limits::kEpsilon);
    visit("pad_token_id", self.pad_token_id, limits::kTokenId);
    visit("tie_word_embeddings", self.tie_word_embeddings);
    visit("attention_bias", self.attention_bias);
    visit("attention_dropout", self.attention_dropout, limits::kShare);
    visit("query_pre_attn_scalar", self.query_pre_attn_scalar, limits::kWidth);
    visit("sliding_window", self.sliding_window, limits::kTokens);
    visit("layer_types", self.layer_types);
    visit("sliding_window_pattern", self.sliding_window_pattern, limits::kInterval);
    visit("final_logit_softcapping", self.final_logit_softcapping, limits::kDivisor);
    visit("attn_logit_softcapping", self.attn_logit_softcapping, limits::kDivisor);
  }
};

/// How an architecture that has Gemma 2's layers differs from Gemma 2.
struct GemmaFamily {
  std::string class_prefix = "Gemma2";
  /// Of the model without a head, and of the heads that classify.
  std::string model_prefix = "Gemma2";
  GemmaConfig defaults = {};
  bool has_pattern = false;      ///< sliding_window_pattern counts.
  bool caps_scores = true;       ///< attn_logit_softcapping counts.
  bool has_query_norms = false;  ///< Queries and keys are normed, each head, before rotating.
  /// Makes the rotary embedding of a type of layers. If empty, one embedding serves all layers.
  std::function<Rotary(const PretrainedConfig& config, Rotary::Model model)> rotary = {};
};

/// Returns an architecture with Gemma 2's layers, heads and names in GGUF files.
[[nodiscard]] Architecture gemma_like(std::string_view model_type, const GemmaFamily& family);

}  // namespace accelerate::detail
