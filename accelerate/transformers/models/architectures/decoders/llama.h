// Llama, and the parts of it that other decoders share. SmolLM 2 is a Llama. Modules have the names
// that they have in Transformers. Source: Touvron et al. 2023; `modeling_llama.py` of Transformers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/models/architecture.h"

namespace accelerate::detail {

/// The keys of config.json, with Transformers' defaults for Llama. Rotary reads the keys of rotary
/// embeddings.
struct LlamaConfig {
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 4096;
  std::int64_t intermediate_size = 11008;
  std::int64_t num_hidden_layers = 32;
  std::int64_t num_attention_heads = 32;
  std::optional<std::int64_t> num_key_value_heads = {};  ///< num_attention_heads if not given.
  std::optional<std::int64_t> head_dim = {};  ///< hidden_size / num_attention_heads if not given.
  std::string hidden_act = "silu";
  std::int64_t max_position_embeddings = 2048;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  std::optional<std::int64_t> pad_token_id = {};
  bool tie_word_embeddings = false;
  bool attention_bias = false;  ///< As LlamaFamily::biases says.
  bool mlp_bias = false;
  std::optional<double> attention_dropout = 0;
  std::optional<std::int64_t> sliding_window = {};  ///< As LlamaFamily::windows says.
  bool use_sliding_window = false;  ///< Switches the window on, where some layers have it.
  /// The first layer with a window, if layer_types is empty. Qwen only.
  std::int64_t max_window_layers = 28;
  /// "full_attention" or "sliding_attention" for each layer.
  std::vector<std::string> layer_types = {};
  /// SmolLM 3 only: 0 for each layer that does not rotate. If empty, each layer whose number from 1
  /// is a multiple of the interval does not.
  std::vector<std::int64_t> no_rope_layers = {};
  std::int64_t no_rope_layer_interval = 4;
  /// Granite only: factors of the embeddings, of what each half of a layer adds, and of scores; and
  /// the divisor of logits.
  double embedding_multiplier = 1, residual_multiplier = 1, attention_multiplier = 1,
         logits_scaling = 1;

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("vocab_size", self.vocab_size, limits::kWords);
    visit("hidden_size", self.hidden_size, limits::kWidth);
    visit("intermediate_size", self.intermediate_size, limits::kInner);
    visit("num_hidden_layers", self.num_hidden_layers, limits::kLayers);
    visit("num_attention_heads", self.num_attention_heads, limits::kHeads);
    visit("num_key_value_heads", self.num_key_value_heads, limits::kHeads);
    visit("head_dim", self.head_dim, limits::kWidth);
    visit("hidden_act", self.hidden_act);
    visit("max_position_embeddings", self.max_position_embeddings, limits::kTokens);
    visit("initializer_range", self.initializer_range, limits::kDeviation);
    visit("rms_norm_eps", self.rms_norm_eps, limits::kEpsilon);
    visit("pad_token_id", self.pad_token_id, limits::kTokenId);
    visit("tie_word_embeddings", self.tie_word_embeddings);
    visit("attention_bias", self.attention_bias);
    visit("mlp_bias", self.mlp_bias);
    visit("attention_dropout", self.attention_dropout, limits::kShare);
    visit("sliding_window", self.sliding_window, limits::kTokens);
    visit("use_sliding_window", self.use_sliding_window);
    visit("max_window_layers", self.max_window_layers, limits::kIndex);
    visit("layer_types", self.layer_types);
    visit("no_rope_layers", self.no_rope_layers);
    visit("no_rope_layer_interval", self.no_rope_layer_interval, limits::kInterval);
    visit("embedding_multiplier", self.embedding_multiplier, limits::kFactor);
    visit("residual_multiplier", self.residual_multiplier, limits::kFactor);
    visit("attention_multiplier", self.attention_multiplier, limits::kFactor);
    visit("logits_scaling", self.logits_scaling, limits::kDivisor);
  }
};

/// How an architecture that has Llama's layers differs from Llama.
struct LlamaFamily {
  std::string class_prefix = "Llama";
  LlamaConfig defaults = {};
  /// Which of attention_bias and mlp_bias count.
  enum class Biases { none, of_attention, all } biases = Biases::all;
  bool biases_queries = false;  ///< Queries, keys and values have biases.
  /// Which layers have the sliding_window.
  enum class Windows { none, all_layers, some_layers } windows = Windows::none;
  /// Whether queries and keys are normed before they are rotated: each head alone, or all heads of a
  /// token together.
  enum class QueryNorms { none, each_head, all_heads } query_norms = QueryNorms::none;
  /// Attention and MLP norm what they give, and not what they read. The norms weight in fp32, and
  /// queries and keys are rotated in fp32.
  bool norms_after = false;
  bool skips_rotations = false;  ///< no_rope_layers counts.
  bool multiplies = false;       ///< The factors of Granite count.
  double default_theta = 10000;  ///< Of rotations, if the file has no rope_theta.
  /// The name of the decoder below the head of question answering. Transformers' Llama has another
  /// one there than below its other heads.
  std::string base_of_question_answering = "transformer";
  /// Heads of Llama that this architecture does not have.
  std::vector<Task> without = {};
};

[[nodiscard]] Architecture llama();
/// Returns how GGUF files of `architecture` call what a Llama has.
[[nodiscard]] GgufNames llama_gguf(std::string_view architecture);
/// Returns an architecture with Llama's layers and heads. GGUF files of llama.cpp call it
/// `model_type`.
[[nodiscard]] Architecture llama_like(std::string_view model_type, const LlamaFamily& family);

}  // namespace accelerate::detail
