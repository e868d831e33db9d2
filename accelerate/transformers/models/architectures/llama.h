// Llama, and models that differ from it in a few switches: Mistral and Qwen 2. SmolLM 2 is a Llama.
// Modules have the names that they have in Transformers.
// Source: Touvron et al. 2023, Jiang et al. 2023, Yang et al. 2024; `modeling_llama.py`,
// `modeling_mistral.py` and `modeling_qwen2.py` of Transformers.
#pragma once

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "accelerate/transformers/models/architectures/causal_decoder.h"
#include "accelerate/transformers/models/config/limits.h"
#include "accelerate/transformers/models/layers/activations.h"
#include "accelerate/transformers/models/layers/linear.h"
#include "accelerate/transformers/models/layers/rms_norm.h"
#include "accelerate/transformers/models/layers/rotary.h"

namespace accelerate {

/// The keys of config.json, with Transformers' defaults for Llama. detail::Rotary reads the keys of
/// rotary embeddings.
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
  bool attention_bias = false;  ///< Llama only.
  bool mlp_bias = false;        ///< Llama only.
  std::optional<double> attention_dropout = 0;
  std::optional<std::int64_t> sliding_window = {};  ///< Mistral and Qwen 2 only.
  bool use_sliding_window = false;                  ///< Qwen 2 only: switches its window on.
  /// Qwen 2 only: the first layer with a window, if layer_types is empty.
  std::int64_t max_window_layers = 28;
  /// Qwen 2 only: "full_attention" or "sliding_attention" for each layer.
  std::vector<std::string> layer_types = {};

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("vocab_size", self.vocab_size, detail::limits::kWords);
    visit("hidden_size", self.hidden_size, detail::limits::kWidth);
    visit("intermediate_size", self.intermediate_size, detail::limits::kInner);
    visit("num_hidden_layers", self.num_hidden_layers, detail::limits::kLayers);
    visit("num_attention_heads", self.num_attention_heads, detail::limits::kHeads);
    visit("num_key_value_heads", self.num_key_value_heads, detail::limits::kHeads);
    visit("head_dim", self.head_dim, detail::limits::kWidth);
    visit("hidden_act", self.hidden_act);
    visit("max_position_embeddings", self.max_position_embeddings, detail::limits::kTokens);
    visit("initializer_range", self.initializer_range, detail::limits::kDeviation);
    visit("rms_norm_eps", self.rms_norm_eps, detail::limits::kEpsilon);
    visit("pad_token_id", self.pad_token_id, detail::limits::kTokenId);
    visit("tie_word_embeddings", self.tie_word_embeddings);
    visit("attention_bias", self.attention_bias);
    visit("mlp_bias", self.mlp_bias);
    visit("attention_dropout", self.attention_dropout, detail::limits::kShare);
    visit("sliding_window", self.sliding_window, detail::limits::kTokens);
    visit("use_sliding_window", self.use_sliding_window);
    visit("max_window_layers", self.max_window_layers, detail::limits::kIndex);
    visit("layer_types", self.layer_types);
  }
};

namespace detail {

/// The architectures that share this code.
enum class LlamaKind : std::uint8_t { llama, mistral, qwen2 };

/// A layer of any of the three architectures, under that architecture's class name.
class LlamaDecoderLayerImpl : public torch::nn::Module {
 public:
  LlamaDecoderLayerImpl(const LlamaConfig& config, LlamaKind kind, std::int64_t index);
  /// hidden: {…, H}. Returns the same shape. `cache` may be null.
  [[nodiscard]] at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens,
                                   const Rotary::Angles& angles, AttentionSpec spec,
                                   KeyValueCache* cache);

 private:
  [[nodiscard]] at::Tensor attend(const at::Tensor& hidden, const Tokens& tokens,
                                  const Rotary::Angles& angles, const AttentionSpec& spec,
                                  KeyValueCache* cache);

  std::size_t index_;
  std::int64_t head_dim_;
  double attention_dropout_;
  Activation activation_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_, gate_proj_, up_proj_, down_proj_;
  RMSNorm input_layernorm_, post_attention_layernorm_;
};
TORCH_MODULE(LlamaDecoderLayer);

}  // namespace detail

/// The decoder alone, of the architecture that model_type names.
class LlamaModelImpl : public DecoderModel {
 public:
  explicit LlamaModelImpl(const PretrainedConfig& config);
  [[nodiscard]] detail::Computed compute(const TextInputs& inputs,
                                         const detail::HeadNeeds& needs) override;
  [[nodiscard]] std::vector<std::string> no_split_modules() const override;
  [[nodiscard]] ParallelPlan parallel_plan() const override;
  [[nodiscard]] std::int64_t hidden_size() const override { return values_.hidden_size; }
  [[nodiscard]] std::int64_t vocab_size() const override { return values_.vocab_size; }
  [[nodiscard]] std::int64_t max_positions() const override {
    return values_.max_position_embeddings;
  }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override { return embed_tokens; }
  [[nodiscard]] const LlamaConfig& values() const { return values_; }

  torch::nn::Embedding embed_tokens = nullptr;

 private:
  // Returns the window of a layer; nullopt if the layer sees all tokens before.
  [[nodiscard]] std::optional<std::int64_t> window_of(std::int64_t layer) const;

  // The types of its layers, as the keys of rope_parameters call them.
  [[nodiscard]] std::set<std::string> layer_types() const;

  detail::LlamaKind kind_;
  LlamaConfig values_;
  detail::Rotary rotary_;
  torch::nn::ModuleList layers_;
  detail::RMSNorm norm_ = nullptr;
};
TORCH_MODULE(LlamaModel);

/// Its name is "LlamaForCausalLM", "MistralForCausalLM" or "Qwen2ForCausalLM".
class LlamaForCausalLMImpl : public DecoderForCausalLM {
 public:
  explicit LlamaForCausalLMImpl(const PretrainedConfig& config);
};
TORCH_MODULE(LlamaForCausalLM);

class LlamaForSequenceClassificationImpl : public DecoderForSequenceClassification {
 public:
  explicit LlamaForSequenceClassificationImpl(const PretrainedConfig& config);
};
TORCH_MODULE(LlamaForSequenceClassification);

class LlamaForTokenClassificationImpl : public DecoderForTokenClassification {
 public:
  explicit LlamaForTokenClassificationImpl(const PretrainedConfig& config);
};
TORCH_MODULE(LlamaForTokenClassification);

class LlamaForQuestionAnsweringImpl : public DecoderForQuestionAnswering {
 public:
  explicit LlamaForQuestionAnsweringImpl(const PretrainedConfig& config);
};
TORCH_MODULE(LlamaForQuestionAnswering);

}  // namespace accelerate
