// Phi-3 and Phi-4: Llama with queries, keys and values in one weight, and gate and up in another;
// with dropout behind each half of a layer, and heads that may be rotated in part. Modules have the
// names that they have in Transformers. Source: Abdin et al. 2024; `modeling_phi3.py`.
#include <ATen/TensorOperators.h>
#include <torch/nn/modules/embedding.h>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/architectures/decoders/llama.h"
#include "accelerate/transformers/models/architectures/heads.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/rms_norm.h"
#include "accelerate/transformers/models/layers/rotary.h"

namespace accelerate::detail {
namespace {

// The keys of config.json, with Transformers' defaults. Rotary reads the keys of rotary embeddings.
struct Phi3Config {
  std::int64_t vocab_size = 32064;
  std::int64_t hidden_size = 3072;
  std::int64_t intermediate_size = 8192;
  std::int64_t num_hidden_layers = 32;
  std::int64_t num_attention_heads = 32;
  std::optional<std::int64_t> num_key_value_heads = {};  // num_attention_heads if not given.
  std::optional<std::int64_t> head_dim = {};  // hidden_size / num_attention_heads if not given.
  double resid_pdrop = 0;
  double embd_pdrop = 0;  // Transformers' model does not read it either.
  double attention_dropout = 0;
  std::string hidden_act = "silu";
  std::int64_t max_position_embeddings = 4096;
  std::int64_t original_max_position_embeddings = 4096;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-5;
  std::optional<std::int64_t> pad_token_id = 32000;
  bool tie_word_embeddings = false;
  std::optional<std::int64_t> sliding_window = {};  // Of all layers.

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("vocab_size", self.vocab_size, limits::kWords);
    visit("hidden_size", self.hidden_size, limits::kWidth);
    visit("intermediate_size", self.intermediate_size, limits::kInner);
    visit("num_hidden_layers", self.num_hidden_layers, limits::kLayers);
    visit("num_attention_heads", self.num_attention_heads, limits::kHeads);
    visit("num_key_value_heads", self.num_key_value_heads, limits::kHeads);
    visit("head_dim", self.head_dim, limits::kWidth);
    visit("resid_pdrop", self.resid_pdrop, limits::kShare);
    visit("embd_pdrop", self.embd_pdrop, limits::kShare);
    visit("attention_dropout", self.attention_dropout, limits::kShare);
    visit("hidden_act", self.hidden_act);
    visit("max_position_embeddings", self.max_position_embeddings, limits::kTokens);
    visit("original_max_position_embeddings", self.original_max_position_embeddings,
          limits::kTokens);
    visit("initializer_range", self.initializer_range, limits::kDeviation);
    visit("rms_norm_eps", self.rms_norm_eps, limits::kEpsilon);
    visit("pad_token_id", self.pad_token_id, limits::kTokenId);
    visit("tie_word_embeddings", self.tie_word_embeddings);
    visit("sliding_window", self.sliding_window, limits::kTokens);
  }
};

Phi3Config read_phi3(const PretrainedConfig& config) {
  check_common_keys(config);
  auto values = read_config<Phi3Config>(config);
  check_activation(config, "hidden_act");
  check_padding_row(config, values.pad_token_id, "vocab_size", values.vocab_size);
  values.num_key_value_heads = values.num_key_value_heads.value_or(values.num_attention_heads);
  check_key_heads(config, values.num_attention_heads, *values.num_key_value_heads);
  if (values.head_dim) return values;
  check_heads(config, {"num_attention_heads", values.num_attention_heads, "hidden_size",
                       values.hidden_size});
  values.head_dim = values.hidden_size / values.num_attention_heads;
  return values;
}

class Phi3Layer final : public torch::nn::Module {
 public:
  explicit Phi3Layer(const Phi3Config& config)
      : torch::nn::Module("Phi3DecoderLayer"),
        heads_(config.num_attention_heads),
        key_heads_(*config.num_key_value_heads),
        attention_dropout_(config.attention_dropout),
        dropout_(config.resid_pdrop),
        activation_(activation_of(config.hidden_act)),
        o_proj_(heads_ * *config.head_dim, config.hidden_size, /*has_bias=*/false),
        qkv_proj_(config.hidden_size, (heads_ + 2 * key_heads_) * *config.head_dim,
                  /*has_bias=*/false),
        gate_up_proj_(config.hidden_size, 2 * config.intermediate_size, /*has_bias=*/false),
        down_proj_(config.intermediate_size, config.hidden_size, /*has_bias=*/false),
        input_layernorm_("Phi3RMSNorm", config.hidden_size, config.rms_norm_eps),
        post_attention_layernorm_("Phi3RMSNorm", config.hidden_size, config.rms_norm_eps) {
    auto& attention = part(*this, "self_attn", "Phi3Attention");
    attention.register_module("o_proj", o_proj_);
    attention.register_module("qkv_proj", qkv_proj_);
    auto& mlp = part(*this, "mlp", "Phi3MLP");
    mlp.register_module("gate_up_proj", gate_up_proj_);
    mlp.register_module("down_proj", down_proj_);
    register_module("input_layernorm", input_layernorm_);
    register_module("post_attention_layernorm", post_attention_layernorm_);
  }

  // {…, H} → {…, H}
  at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens, const Rotary::Angles& angles,
                     AttentionSpec spec) {
    spec.dropout = is_training() ? attention_dropout_ : 0;
    const auto dropped = [&](const at::Tensor& x) {
      return dropout_of(x, dropout_, is_training());
    };
    const auto parts = qkv_proj_(input_layernorm_(hidden))
                           .unflatten(-1, {heads_ + 2 * key_heads_, -1})
                           .split_with_sizes({heads_, key_heads_, key_heads_}, -2);
    const at::Tensor context =
        attention(rotate(parts[0], angles), rotate(parts[1], angles), parts[2], tokens, spec);
    const at::Tensor attended = hidden + dropped(o_proj_(context));
    const auto gate_and_up = gate_up_proj_(post_attention_layernorm_(attended)).chunk(2, -1);
    return attended + dropped(down_proj_(gate_and_up[1] * activation_(gate_and_up[0])));
  }

 private:
  std::int64_t heads_, key_heads_;
  double attention_dropout_, dropout_;
  Activation activation_;
  Linear o_proj_, qkv_proj_, gate_up_proj_, down_proj_;
  RMSNorm input_layernorm_, post_attention_layernorm_;
};

class Phi3Model final : public DecoderModel {
 public:
  explicit Phi3Model(const PretrainedConfig& config)
      : DecoderModel("Phi3Model", config, "model"),
        values_(read_phi3(config)),
        rotary_(config, {.head_dim = *values_.head_dim,
                         .max_positions = values_.max_position_embeddings,
                         .layer_types = {"full_attention"},
                         .phi3_original_positions = values_.original_max_position_embeddings}) {
    check_pairs();
    embed_tokens_ = register_module(
        "embed_tokens",
        torch::nn::Embedding(torch::nn::EmbeddingOptions(values_.vocab_size, values_.hidden_size)
                                 .padding_idx(values_.pad_token_id)));
    for (std::int64_t i = 0; i < values_.num_hidden_layers; ++i)
      layers_->push_back(std::make_shared<Phi3Layer>(values_));
    register_module("layers", layers_);
    norm_ =
        register_module("norm", RMSNorm("Phi3RMSNorm", values_.hidden_size, values_.rms_norm_eps));
    post_init();
  }
  [[nodiscard]] bool ties_embeddings() const override { return values_.tie_word_embeddings; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override { return embed_tokens_; }
  [[nodiscard]] std::int64_t max_positions() const override {
    return values_.max_position_embeddings;
  }
  [[nodiscard]] std::optional<std::int64_t> longest_short_text() const override {
    return rotary_.longest_short_text();
  }
  [[nodiscard]] std::vector<std::string> no_split_modules() const override {
    return {"Phi3DecoderLayer"};
  }
  [[nodiscard]] std::vector<PythonBuffer> python_buffers() const override {
    return {{"rotary_emb.inv_freq", at::kFloat, rotary_.pairs()},
            {"rotary_emb.original_inv_freq", at::kFloat, rotary_.pairs()}};
  }
  // Parts of different sizes stand side by side in a weight, so ranks gather what they have computed.
  [[nodiscard]] ParallelPlan parallel_plan() const override {
    using enum ParallelPlan::Cut;
    return {.tensor_parallel = {{"layers.*.self_attn.qkv_proj", colwise_gather_output},
                                {"layers.*.self_attn.o_proj", rowwise_split_input},
                                {"layers.*.mlp.gate_up_proj", colwise_gather_output},
                                {"layers.*.mlp.down_proj", rowwise_split_input}},
            .pipeline = {{"embed_tokens"}, {"layers.*"}, {"norm"}}};
  }
  [[nodiscard]] Computed compute(const TextInputs& inputs, const HeadNeeds& needs) override;

 private:
  void check_pairs() const {
    if (2 * rotary_.pairs() <= *values_.head_dim) return;
    throw ConfigError(config().name() + ": 'head_dim', or else 'hidden_size' divided by " +
                      "'num_attention_heads', is " + std::to_string(*values_.head_dim) +
                      "; allowed is an even number, as pairs are rotated");
  }

  Phi3Config values_;
  Rotary rotary_;
  torch::nn::Embedding embed_tokens_ = nullptr;
  torch::nn::ModuleList layers_;
  RMSNorm norm_ = nullptr;
};

Computed Phi3Model::compute(const TextInputs& inputs, const HeadNeeds& needs) {
  auto computed = begin(inputs, needs);
  const Tokens& tokens = computed.tokens;
  computed.hidden = words_of(inputs, tokens);
  const at::Tensor positions = positions_of(inputs, tokens.past());
  const auto angles = rotary_.angles(take_positions(positions, inputs, tokens), positions,
                                     computed.hidden.scalar_type());
  AttentionSpec spec = attention_spec(computed, inputs);
  spec.mask = causal_mask(tokens, values_.sliding_window, computed.hidden.device());
  run_layers(computed, inputs, layers_, [&](std::size_t i) {
    spec.layer = i;
    return [layer = layers_->ptr<Phi3Layer>(i), tokens, angles, spec](const at::Tensor& hidden) {
      return layer->forward(hidden, tokens, angles, spec);
    };
  });
  computed.hidden = norm_(computed.hidden);
  computed.keep_hidden(inputs);
  return computed;
}

GgufNames phi3_gguf() {
  GgufNames names = llama_gguf("phi3");
  names.inside = {{"attn_qkv", "self_attn.qkv_proj"}, {"attn_output", "self_attn.o_proj"},
                  {"attn_norm", "input_layernorm"},   {"ffn_norm", "post_attention_layernorm"},
                  {"ffn_up", "mlp.gate_up_proj"},     {"ffn_down", "mlp.down_proj"}};
  return names;
}

}  // namespace

Architecture phi3() {
  Architecture made{.model_type = "phi3",
                    .classes = decoder_classes({.prefix = "Phi3"},
                                               [](const PretrainedConfig& config) {
                                                 return std::make_shared<Phi3Model>(config);
                                               }),
                    .keys = keys_of<Phi3Config>(),
                    .gguf = phi3_gguf()};
  made.classes.erase(Task::question_answering);
  return made;
}

}  // namespace accelerate::detail
