#include "accelerate/transformers/models/architectures/decoders/llama.h"

#include <ATen/TensorOperators.h>
#include <torch/nn/modules/embedding.h>

#include <set>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/architectures/heads.h"
#include "accelerate/transformers/models/layers/rms_norm.h"
#include "accelerate/transformers/models/layers/rotary.h"

namespace accelerate::detail {
namespace {

// Fills in the number of key heads and the size of a head.
void read_heads(const PretrainedConfig& config, LlamaConfig& values) {
  values.num_key_value_heads = values.num_key_value_heads.value_or(values.num_attention_heads);
  check_key_heads(config, values.num_attention_heads, *values.num_key_value_heads);
  if (!values.head_dim) {
    check_heads(config, {"num_attention_heads", values.num_attention_heads, "hidden_size",
                         values.hidden_size});
    values.head_dim = values.hidden_size / values.num_attention_heads;
  }
  if (*values.head_dim % 2 == 0) return;
  throw ConfigError(config.name() + ": 'head_dim', or else 'hidden_size' divided by " +
                    "'num_attention_heads', is " + std::to_string(*values.head_dim) +
                    "; allowed is an even number, as pairs are rotated");
}

// Says for each layer whether it rotates.
void read_rotations(const PretrainedConfig& config, const LlamaFamily& family,
                    LlamaConfig& values) {
  auto& rotates = values.no_rope_layers;
  const auto layers = static_cast<std::size_t>(values.num_hidden_layers);
  if (!family.skips_rotations) rotates.assign(layers, 1);
  if (rotates.empty()) {
    for (std::int64_t i = 1; i <= values.num_hidden_layers; ++i)
      rotates.push_back(i % values.no_rope_layer_interval == 0 ? 0 : 1);
  }
  if (rotates.size() >= layers) return;
  throw ConfigError(config.name() + ": 'no_rope_layers' has " + std::to_string(rotates.size()) +
                    " entries; allowed is one for each of " + std::to_string(layers) +
                    " 'num_hidden_layers'");
}

// Says for each layer whether it has the window.
void read_layer_types(const PretrainedConfig& config, const LlamaFamily& family,
                      LlamaConfig& values) {
  auto& types = values.layer_types;
  const auto layers = static_cast<std::size_t>(values.num_hidden_layers);
  const auto is_full = [&](std::size_t layer) {
    if (!values.sliding_window) return true;
    if (family.windows == LlamaFamily::Windows::all_layers) return false;
    return family.skips_rotations ? values.no_rope_layers[layer] != 0
                                  : static_cast<std::int64_t>(layer) < values.max_window_layers;
  };
  if (types.empty()) {
    for (std::size_t i = 0; i < layers; ++i)
      types.emplace_back(is_full(i) ? "full_attention" : "sliding_attention");
  }
  check_layer_types(config, types, values.num_hidden_layers);
}

LlamaConfig read_llama(const PretrainedConfig& config, const LlamaFamily& family) {
  check_common_keys(config);
  LlamaConfig values = read_config(config, family.defaults);
  check_activation(config, "hidden_act");
  check_padding_row(config, values.pad_token_id, "vocab_size", values.vocab_size);
  read_heads(config, values);
  if (family.biases != LlamaFamily::Biases::all) values.mlp_bias = false;
  if (family.biases == LlamaFamily::Biases::none) values.attention_bias = false;
  // Without use_sliding_window, layer_types of SmolLM 3 still count.
  const bool some_have =
      values.use_sliding_window || (family.skips_rotations && !values.layer_types.empty());
  const bool has_windows = family.windows == LlamaFamily::Windows::all_layers ||
                           (family.windows == LlamaFamily::Windows::some_layers && some_have);
  if (!has_windows) values.sliding_window.reset();
  read_rotations(config, family, values);
  read_layer_types(config, family, values);
  return values;
}

NormWeight norm_weight(const LlamaFamily& family) {
  return family.norms_after ? NormWeight::in_fp32 : NormWeight::after_rounding;
}

class LlamaLayer final : public torch::nn::Module {
 public:
  LlamaLayer(const LlamaConfig& config, const LlamaFamily& family, std::size_t index)
      : torch::nn::Module(family.class_prefix + "DecoderLayer"),
        query_norms_(family.query_norms),
        norms_after_(family.norms_after),
        rotates_(config.no_rope_layers[index] != 0),
        head_dim_(*config.head_dim),
        attention_dropout_(config.attention_dropout.value_or(0)),
        activation_(activation_of(config.hidden_act)),
        q_proj_(config.hidden_size, config.num_attention_heads * head_dim_,
                config.attention_bias || family.biases_queries),
        k_proj_(config.hidden_size, *config.num_key_value_heads * head_dim_,
                config.attention_bias || family.biases_queries),
        v_proj_(config.hidden_size, *config.num_key_value_heads * head_dim_,
                config.attention_bias || family.biases_queries),
        o_proj_(config.num_attention_heads * head_dim_, config.hidden_size, config.attention_bias),
        gate_proj_(config.hidden_size, config.intermediate_size, config.mlp_bias),
        up_proj_(config.hidden_size, config.intermediate_size, config.mlp_bias),
        down_proj_(config.intermediate_size, config.hidden_size, config.mlp_bias) {
    const auto norm = [&](torch::nn::Module& parent, const char* name, std::int64_t size) {
      return parent.register_module(name, RMSNorm(family.class_prefix + "RMSNorm", size,
                                                  config.rms_norm_eps, norm_weight(family)));
    };
    auto& attention = part(*this, "self_attn", family.class_prefix + "Attention");
    attention.register_module("q_proj", q_proj_);
    attention.register_module("k_proj", k_proj_);
    attention.register_module("v_proj", v_proj_);
    attention.register_module("o_proj", o_proj_);
    if (query_norms_ != LlamaFamily::QueryNorms::none) {
      const bool all = query_norms_ == LlamaFamily::QueryNorms::all_heads;
      q_norm_ = norm(attention, "q_norm", head_dim_ * (all ? config.num_attention_heads : 1));
      k_norm_ = norm(attention, "k_norm", head_dim_ * (all ? *config.num_key_value_heads : 1));
    }
    auto& mlp = part(*this, "mlp", family.class_prefix + "MLP");
    mlp.register_module("gate_proj", gate_proj_);
    mlp.register_module("up_proj", up_proj_);
    mlp.register_module("down_proj", down_proj_);
    attention_norm_ = norm(*this, norms_after_ ? "post_attention_layernorm" : "input_layernorm",
                           config.hidden_size);
    mlp_norm_ =
        norm(*this, norms_after_ ? "post_feedforward_layernorm" : "post_attention_layernorm",
             config.hidden_size);
    if (!family.multiplies) return;
    scale_ = config.attention_multiplier;
    residual_ = config.residual_multiplier;
  }

  // hidden: {…, H}. Returns the same shape.
  at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens, const Rotary::Angles& angles,
                     AttentionSpec spec) {
    spec.dropout = is_training() ? attention_dropout_ : 0;
    spec.scale = scale_;
    const auto attend = [&](const at::Tensor& read) {
      const at::Tensor query = turned(q_proj_(read), q_norm_, angles),
                       key = turned(k_proj_(read), k_norm_, angles);
      return o_proj_(attention(query, key, heads_of(v_proj_(read)), tokens, spec));
    };
    const auto feed = [&](const at::Tensor& read) {
      return down_proj_(activation_(gate_proj_(read)) * up_proj_(read));
    };
    return half(half(hidden, attention_norm_, attend), mlp_norm_, feed);
  }

 private:
  // Returns hidden + run(norm(hidden)), or hidden + norm(run(hidden)).
  template <typename Run>
  at::Tensor half(const at::Tensor& hidden, RMSNorm& norm, const Run& run) const {
    const at::Tensor made = norms_after_ ? norm(run(hidden)) : run(norm(hidden));
    return hidden + (residual_ ? made * *residual_ : made);
  }

  at::Tensor heads_of(const at::Tensor& all) const { return all.unflatten(-1, {-1, head_dim_}); }

  // Returns the heads of queries or keys, normed and rotated.
  at::Tensor turned(const at::Tensor& all, RMSNorm& norm, const Rotary::Angles& angles) const {
    using enum LlamaFamily::QueryNorms;
    at::Tensor heads = heads_of(query_norms_ == all_heads ? norm(all) : all);
    if (query_norms_ == each_head) heads = norm(heads);
    return rotates_ ? rotate(heads, angles).to(heads.scalar_type()) : heads;
  }

  LlamaFamily::QueryNorms query_norms_;
  bool norms_after_, rotates_;
  std::int64_t head_dim_;
  double attention_dropout_;
  std::optional<double> scale_, residual_;
  Activation activation_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_, gate_proj_, up_proj_, down_proj_;
  RMSNorm q_norm_ = nullptr, k_norm_ = nullptr, attention_norm_ = nullptr, mlp_norm_ = nullptr;
};

class LlamaModel final : public DecoderModel {
 public:
  LlamaModel(const PretrainedConfig& config, const LlamaFamily& family)
      : DecoderModel(family.class_prefix + "Model", config, "model"),
        family_(family),
        values_(read_llama(config, family)),
        rotary_(config, {.head_dim = *values_.head_dim,
                         .max_positions = values_.max_position_embeddings,
                         .layer_types = {values_.layer_types.begin(), values_.layer_types.end()},
                         .default_theta = family.default_theta}) {
    embed_tokens_ = register_module(
        "embed_tokens",
        torch::nn::Embedding(torch::nn::EmbeddingOptions(values_.vocab_size, values_.hidden_size)
                                 .padding_idx(values_.pad_token_id)));
    for (std::size_t i = 0; i < values_.layer_types.size(); ++i)
      layers_->push_back(std::make_shared<LlamaLayer>(values_, family, i));
    register_module("layers", layers_);
    norm_ = register_module("norm", RMSNorm(family.class_prefix + "RMSNorm", values_.hidden_size,
                                            values_.rms_norm_eps, norm_weight(family)));
    post_init();
  }
  [[nodiscard]] bool ties_embeddings() const override { return values_.tie_word_embeddings; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override { return embed_tokens_; }
  [[nodiscard]] std::int64_t max_positions() const override {
    return values_.max_position_embeddings;
  }
  [[nodiscard]] double logits_scaling() const override {
    return family_.multiplies ? values_.logits_scaling : 1;
  }
  [[nodiscard]] std::vector<std::string> no_split_modules() const override {
    return {family_.class_prefix + "DecoderLayer"};
  }
  [[nodiscard]] std::vector<PythonBuffer> python_buffers() const override {
    return {{"rotary_emb.inv_freq", at::kFloat, *values_.head_dim / 2},
            {"rotary_emb.original_inv_freq", at::kFloat, *values_.head_dim / 2}};
  }
  [[nodiscard]] ParallelPlan parallel_plan() const override {
    using enum ParallelPlan::Cut;
    ParallelPlan plan{.tensor_parallel = {{"layers.*.mlp.gate_proj", colwise},
                                          {"layers.*.mlp.up_proj", colwise},
                                          {"layers.*.mlp.down_proj", rowwise}},
                      .pipeline = {{"embed_tokens"}, {"layers.*"}, {"norm"}}};
    // A norm over all heads of a token needs them on one rank.
    if (family_.query_norms == LlamaFamily::QueryNorms::all_heads) return plan;
    plan.tensor_parallel.insert(plan.tensor_parallel.begin(),
                                {{"layers.*.self_attn.q_proj", colwise},
                                 {"layers.*.self_attn.k_proj", colwise},
                                 {"layers.*.self_attn.v_proj", colwise},
                                 {"layers.*.self_attn.o_proj", rowwise}});
    return plan;
  }
  [[nodiscard]] Computed compute(const TextInputs& inputs, const HeadNeeds& needs) override;

 private:
  // Returns the window of a layer; nullopt if the layer sees all tokens before.
  [[nodiscard]] std::optional<std::int64_t> window_of(std::size_t layer) const {
    const bool is_full = family_.windows == LlamaFamily::Windows::some_layers &&
                         values_.layer_types[layer] == "full_attention";
    return is_full ? std::nullopt : values_.sliding_window;
  }

  LlamaFamily family_;
  LlamaConfig values_;
  Rotary rotary_;
  torch::nn::Embedding embed_tokens_ = nullptr;
  torch::nn::ModuleList layers_;
  RMSNorm norm_ = nullptr;
};

Computed LlamaModel::compute(const TextInputs& inputs, const HeadNeeds& needs) {
  auto computed = begin(inputs, needs);
  const Tokens& tokens = computed.tokens;
  computed.hidden = words_of(inputs, tokens);
  if (family_.multiplies) computed.hidden = computed.hidden * values_.embedding_multiplier;
  const at::Tensor positions = positions_of(inputs, tokens.past());
  const auto angles =
      rotary_.angles(take_positions(positions, inputs, tokens), positions,
                     family_.norms_after ? at::kFloat : computed.hidden.scalar_type());
  AttentionSpec spec = attention_spec(computed, inputs);
  run_layers(computed, inputs, layers_, [&](std::size_t i) {
    if (i == 0 || window_of(i) != window_of(i - 1))
      spec.mask = causal_mask(tokens, window_of(i), computed.hidden.device());
    spec.layer = i;
    return [layer = layers_->ptr<LlamaLayer>(i), tokens, angles, spec](const at::Tensor& hidden) {
      return layer->forward(hidden, tokens, angles, spec);
    };
  });
  computed.hidden = norm_(computed.hidden);
  computed.keep_hidden(inputs);
  return computed;
}

}  // namespace

GgufNames llama_gguf(std::string_view architecture) {
  return {.architecture = architecture,
          .integers = {{"context_length", "max_position_embeddings"},
                       {"block_count", "num_hidden_layers"},
                       {"feed_forward_length", "intermediate_size"},
                       {"embedding_length", "hidden_size"},
                       {"attention.head_count", "num_attention_heads"},
                       {"attention.head_count_kv", "num_key_value_heads"},
                       {"vocab_size", "vocab_size"}},
          .numbers = {{"rope.freq_base", "rope_theta"},
                      {"attention.layer_norm_rms_epsilon", "rms_norm_eps"}},
          .outside = {{"token_embd", "model.embed_tokens"},
                      {"output_norm", "model.norm"},
                      {"output", "lm_head"}},
          .layers = "model.layers.",
          .inside = {{"attn_q", "self_attn.q_proj"},
                     {"attn_k", "self_attn.k_proj"},
                     {"attn_v", "self_attn.v_proj"},
                     {"attn_output", "self_attn.o_proj"},
                     {"attn_norm", "input_layernorm"},
                     {"ffn_norm", "post_attention_layernorm"},
                     {"ffn_gate", "mlp.gate_proj"},
                     {"ffn_up", "mlp.up_proj"},
                     {"ffn_down", "mlp.down_proj"}}};
}

Architecture llama_like(std::string_view model_type, const LlamaFamily& family) {
  Architecture made{
      .model_type = model_type,
      .classes = decoder_classes({.prefix = family.class_prefix,
                                  .base_of_question_answering = family.base_of_question_answering},
                                 [family](const PretrainedConfig& config) {
                                   return std::make_shared<LlamaModel>(config, family);
                                 }),
      .keys = keys_of<LlamaConfig>(),
      .gguf = llama_gguf(model_type)};
  for (const Task task : family.without) made.classes.erase(task);
  return made;
}

Architecture llama() {
  Architecture made = llama_like("llama", {});
  made.gguf->integers.emplace_back("rope.dimension_count", "head_dim");
  made.gguf->steps = {{"attn_q", GgufNames::Step::interleave_queries},
                      {"attn_k", GgufNames::Step::interleave_keys}};
  return made;
}

}  // namespace accelerate::detail
