#include "accelerate/transformers/models/architectures/decoders/gemma2.h"
#include "accelerate/transformers/models/architectures/decoders/llama.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <cmath>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/architectures/heads.h"
#include "accelerate/transformers/models/layers/rms_norm.h"

namespace accelerate::detail {
namespace {

constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

// Says for each layer whether it has the window.
void read_windows(const PretrainedConfig& config, const GemmaFamily& family, GemmaConfig& values) {
  if (!family.has_pattern) values.sliding_window_pattern = family.defaults.sliding_window_pattern;
  auto& types = values.layer_types;
  if (types.empty()) {
    for (std::int64_t i = 1; i <= values.num_hidden_layers; ++i)
      types.emplace_back(i % values.sliding_window_pattern == 0 ? kFull : kSliding);
  }
  check_layer_types(config, types, values.num_hidden_layers);
  if (!values.sliding_window && std::ranges::count(types, kSliding) > 0)
    config.refuse("sliding_window", "an integer, as 'layer_types' has " + std::string(kSliding));
}

GemmaConfig read_gemma(const PretrainedConfig& config, const GemmaFamily& family) {
  check_common_keys(config);
  GemmaConfig values = read_config(config, family.defaults);
  if (config.get<bool>("use_bidirectional_attention", false))
    config.refuse("use_bidirectional_attention",
                  "null or false: a token sees the tokens before it");
  check_activation(config, "hidden_activation");
  check_padding_row(config, values.pad_token_id, "vocab_size", values.vocab_size);
  check_heads(config, {"num_attention_heads", values.num_attention_heads, "hidden_size",
                       values.hidden_size});
  check_key_heads(config, values.num_attention_heads, values.num_key_value_heads);
  if (values.head_dim % 2 != 0) config.refuse("head_dim", "an even number, as pairs are rotated");
  if (!family.caps_scores) values.attn_logit_softcapping.reset();
  read_windows(config, family, values);
  return values;
}

// Attention and a feed-forward network. Each is normed before and behind, and added to its input.
class GemmaLayer final : public torch::nn::Module {
 public:
  GemmaLayer(const GemmaConfig& config, const GemmaFamily& family)
      : torch::nn::Module(family.class_prefix + "DecoderLayer"),
        head_dim_(config.head_dim),
        scale_(1 / std::sqrt(static_cast<double>(config.query_pre_attn_scalar))),
        softcap_(config.attn_logit_softcapping),
        attention_dropout_(config.attention_dropout.value_or(0)),
        activation_(activation_of(config.hidden_activation)),
        q_proj_(config.hidden_size, config.num_attention_heads * head_dim_, config.attention_bias),
        k_proj_(config.hidden_size, config.num_key_value_heads * head_dim_, config.attention_bias),
        v_proj_(config.hidden_size, config.num_key_value_heads * head_dim_, config.attention_bias),
        o_proj_(config.num_attention_heads * head_dim_, config.hidden_size, config.attention_bias),
        gate_proj_(config.hidden_size, config.intermediate_size, /*has_bias=*/false),
        up_proj_(config.hidden_size, config.intermediate_size, /*has_bias=*/false),
        down_proj_(config.intermediate_size, config.hidden_size, /*has_bias=*/false) {
    const auto norm = [&](torch::nn::Module& parent, const char* name, std::int64_t size) {
      return parent.register_module(name, RMSNorm(family.class_prefix + "RMSNorm", size,
                                                  config.rms_norm_eps, NormWeight::above_one));
    };
    auto& attention = part(*this, "self_attn", family.class_prefix + "Attention");
    attention.register_module("q_proj", q_proj_);
    attention.register_module("k_proj", k_proj_);
    attention.register_module("v_proj", v_proj_);
    attention.register_module("o_proj", o_proj_);
    if (family.has_query_norms) {
      q_norm_ = norm(attention, "q_norm", head_dim_);
      k_norm_ = norm(attention, "k_norm", head_dim_);
    }
    auto& mlp = part(*this, "mlp", family.class_prefix + "MLP");
    mlp.register_module("gate_proj", gate_proj_);
    mlp.register_module("up_proj", up_proj_);
    mlp.register_module("down_proj", down_proj_);
    before_attention_ = norm(*this, "input_layernorm", config.hidden_size);
    behind_attention_ = norm(*this, "post_attention_layernorm", config.hidden_size);
    before_mlp_ = norm(*this, "pre_feedforward_layernorm", config.hidden_size);
    behind_mlp_ = norm(*this, "post_feedforward_layernorm", config.hidden_size);
  }

  // hidden: {…, H}. Returns the same shape.
  at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens, const Rotary::Angles& angles,
                     AttentionSpec spec) {
    spec.dropout = is_training() ? attention_dropout_ : 0;
    spec.scale = scale_;
    spec.softcap = softcap_;
    const at::Tensor read = before_attention_(hidden);
    const at::Tensor query = turned(q_proj_(read), q_norm_, angles),
                     key = turned(k_proj_(read), k_norm_, angles),
                     context = attention(query, key, heads_of(v_proj_(read)), tokens, spec);
    const at::Tensor attended = hidden + behind_attention_(o_proj_(context));
    const at::Tensor fed = before_mlp_(attended);
    return attended + behind_mlp_(down_proj_(activation_(gate_proj_(fed)) * up_proj_(fed)));
  }

 private:
  at::Tensor heads_of(const at::Tensor& all) const { return all.unflatten(-1, {-1, head_dim_}); }

  // Returns the heads of queries or keys, normed and rotated.
  at::Tensor turned(const at::Tensor& all, RMSNorm& norm, const Rotary::Angles& angles) const {
    const at::Tensor heads = heads_of(all);
    return rotate(norm.is_empty() ? heads : norm(heads), angles);
  }

  std::int64_t head_dim_;
  double scale_;
  std::optional<double> softcap_;
  double attention_dropout_;
  Activation activation_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_, gate_proj_, up_proj_, down_proj_;
  RMSNorm q_norm_ = nullptr, k_norm_ = nullptr, before_attention_ = nullptr,
          behind_attention_ = nullptr, before_mlp_ = nullptr, behind_mlp_ = nullptr;
};

class GemmaModel final : public DecoderModel {
 public:
  GemmaModel(const PretrainedConfig& config, const GemmaFamily& family)
      : DecoderModel(family.model_prefix + "Model", config, "model"),
        family_(family),
        values_(read_gemma(config, family)),
        rotary_(rotary_of(kFull)),
        rotary_of_windows_(rotary_of(kSliding)) {
    embed_tokens_ = register_module(
        "embed_tokens",
        torch::nn::Embedding(torch::nn::EmbeddingOptions(values_.vocab_size, values_.hidden_size)
                                 .padding_idx(values_.pad_token_id)));
    for (std::int64_t i = 0; i < values_.num_hidden_layers; ++i)
      layers_->push_back(std::make_shared<GemmaLayer>(values_, family));
    register_module("layers", layers_);
    norm_ = register_module("norm", RMSNorm(family.class_prefix + "RMSNorm", values_.hidden_size,
                                            values_.rms_norm_eps, NormWeight::above_one));
    post_init();
  }
  [[nodiscard]] bool ties_embeddings() const override { return values_.tie_word_embeddings; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override { return embed_tokens_; }
  [[nodiscard]] std::int64_t max_positions() const override {
    return values_.max_position_embeddings;
  }
  [[nodiscard]] std::optional<double> logits_softcap() const override {
    return values_.final_logit_softcapping;
  }
  [[nodiscard]] std::vector<std::string> no_split_modules() const override {
    return {family_.class_prefix + "DecoderLayer"};
  }
  [[nodiscard]] std::vector<PythonBuffer> python_buffers() const override;
  [[nodiscard]] ParallelPlan parallel_plan() const override {
    using enum ParallelPlan::Cut;
    return {.tensor_parallel = {{"layers.*.self_attn.q_proj", colwise},
                                {"layers.*.self_attn.k_proj", colwise},
                                {"layers.*.self_attn.v_proj", colwise},
                                {"layers.*.self_attn.o_proj", rowwise},
                                {"layers.*.mlp.gate_proj", colwise},
                                {"layers.*.mlp.up_proj", colwise},
                                {"layers.*.mlp.down_proj", rowwise}},
            .pipeline = {{"embed_tokens"}, {"layers.*"}, {"norm"}}};
  }
  [[nodiscard]] Computed compute(const TextInputs& inputs, const HeadNeeds& needs) override;

 private:
  [[nodiscard]] Rotary rotary_of(const char* layer_type) const {
    Rotary::Model model{.head_dim = values_.head_dim,
                        .max_positions = values_.max_position_embeddings,
                        .layer_types = {layer_type}};
    if (family_.rotary) return family_.rotary(config(), model);
    model.layer_types = {values_.layer_types.begin(), values_.layer_types.end()};
    return {config(), model};
  }

  GemmaFamily family_;
  GemmaConfig values_;
  Rotary rotary_, rotary_of_windows_;
  torch::nn::Embedding embed_tokens_ = nullptr;
  torch::nn::ModuleList layers_;
  RMSNorm norm_ = nullptr;
};

std::vector<PythonBuffer> GemmaModel::python_buffers() const {
  std::vector<PythonBuffer> buffers{{"embed_tokens.embed_scale", at::kFloat, 1}};
  const std::set<std::string> types(values_.layer_types.begin(), values_.layer_types.end());
  const auto add = [&](const std::string& prefix) {
    for (const char* name : {"inv_freq", "original_inv_freq"})
      buffers.push_back({"rotary_emb." + prefix + name, at::kFloat, values_.head_dim / 2});
  };
  if (!family_.rotary) add("");
  if (family_.rotary)
    for (const std::string& type : types) add(type + "_");
  return buffers;
}

Computed GemmaModel::compute(const TextInputs& inputs, const HeadNeeds& needs) {
  auto computed = begin(inputs, needs);
  const Tokens& tokens = computed.tokens;
  const at::Tensor words = words_of(inputs, tokens);
  // The factor is rounded to the type of the weights: 55.5 in bf16 where the root is 55.4256.
  const at::Tensor factor =
      at::scalar_tensor(std::sqrt(static_cast<double>(values_.hidden_size)), at::kFloat);
  computed.hidden = words * factor.to(embed_tokens_->weight.scalar_type());
  const at::Tensor positions = positions_of(inputs, tokens.past());
  const auto angles_of = [&](const Rotary& rotary) {
    return rotary.angles(take_positions(positions, inputs, tokens), positions,
                         computed.hidden.scalar_type());
  };
  const auto angles = angles_of(rotary_);
  const auto angles_of_windows = family_.rotary ? angles_of(rotary_of_windows_) : angles;
  const auto device = computed.hidden.device();
  const AttentionMask full = causal_mask(tokens, {}, device),
                      window = causal_mask(tokens, values_.sliding_window, device);
  AttentionSpec spec = attention_spec(computed, inputs);
  run_layers(computed, inputs, layers_, [&](std::size_t i) {
    const bool is_full = values_.layer_types[i] == kFull;
    spec.layer = i;
    spec.mask = is_full ? full : window;
    return
        [layer = layers_->ptr<GemmaLayer>(i), tokens, angles = is_full ? angles : angles_of_windows,
         spec](const at::Tensor& hidden) { return layer->forward(hidden, tokens, angles, spec); };
  });
  computed.hidden = norm_(computed.hidden);
  computed.keep_hidden(inputs);
  return computed;
}

GgufNames gemma_gguf(std::string_view architecture) {
  GgufNames names = llama_gguf(architecture);
  names.integers.emplace_back("attention.key_length", "head_dim");
  names.integers.emplace_back("attention.sliding_window", "sliding_window");
  std::erase(names.inside, NamePairs::value_type("ffn_norm", "post_attention_layernorm"));
  names.inside.emplace_back("post_attention_norm", "post_attention_layernorm");
  names.inside.emplace_back("ffn_norm", "pre_feedforward_layernorm");
  names.inside.emplace_back("post_ffw_norm", "post_feedforward_layernorm");
  names.adds_one_to_norms = true;
  return names;
}

}  // namespace

Architecture gemma_like(std::string_view model_type, const GemmaFamily& family) {
  const auto make = [family](const PretrainedConfig& config) {
    return std::make_shared<GemmaModel>(config, family);
  };
  Architecture made{.model_type = model_type,
                    .classes = decoder_classes({.prefix = family.model_prefix}, make),
                    .keys = keys_of<GemmaConfig>(),
                    .gguf = gemma_gguf(model_type)};
  made.classes[Task::causal_lm] =
      decoder_classes({.prefix = family.class_prefix}, make).at(Task::causal_lm);
  made.classes.erase(Task::question_answering);
  return made;
}

Architecture gemma2() {
  return gemma_like("gemma2", {});
}

}  // namespace accelerate::detail
