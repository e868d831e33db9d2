#include "accelerate/transformers/models/architectures/llama.h"

#include <ATen/TensorOperators.h>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/config/architecture_config.h"
#include "accelerate/transformers/models/layers/part.h"

namespace accelerate {
namespace {

using detail::LlamaKind;

LlamaKind kind_of(const PretrainedConfig& config) {
  const std::string type = config.model_type();
  return type == "mistral" ? LlamaKind::mistral
         : type == "qwen2" ? LlamaKind::qwen2
                           : LlamaKind::llama;
}

std::string class_prefix(LlamaKind kind) {
  switch (kind) {
    case LlamaKind::mistral:
      return "Mistral";
    case LlamaKind::qwen2:
      return "Qwen2";
    case LlamaKind::llama:
      break;
  }
  return "Llama";
}

LlamaConfig defaults_of(LlamaKind kind) {
  LlamaConfig config;
  if (kind == LlamaKind::mistral) {
    config.intermediate_size = 14336;
    config.num_key_value_heads = 8;
    config.max_position_embeddings = 131072;
    config.sliding_window = 4096;
  } else if (kind == LlamaKind::qwen2) {
    config.vocab_size = 151936;
    config.intermediate_size = 22016;
    config.max_position_embeddings = 32768;
    config.sliding_window = 4096;
  }
  return config;
}

// Fills in the number of key heads and the size of a head.
void read_heads(const PretrainedConfig& config, LlamaConfig& values) {
  values.num_key_value_heads = values.num_key_value_heads.value_or(values.num_attention_heads);
  if (values.num_attention_heads % *values.num_key_value_heads != 0) {
    throw ConfigError(config.name() + ": 'num_key_value_heads' is " +
                      std::to_string(*values.num_key_value_heads) + ", which does not divide " +
                      std::to_string(values.num_attention_heads) +
                      " attention heads ('num_attention_heads'); allowed is a divisor");
  }
  if (!values.head_dim) {
    detail::check_heads(config, {"num_attention_heads", values.num_attention_heads, "hidden_size",
                                 values.hidden_size});
    values.head_dim = values.hidden_size / values.num_attention_heads;
  }
  if (*values.head_dim % 2 == 0) return;
  throw ConfigError(config.name() + ": 'head_dim', or else 'hidden_size' divided by " +
                    "'num_attention_heads', is " + std::to_string(*values.head_dim) +
                    "; allowed is an even number, as pairs are rotated");
}

void check_layer_types(const PretrainedConfig& config, const LlamaConfig& values) {
  const auto& types = values.layer_types;
  if (!types.empty() && static_cast<std::int64_t>(types.size()) != values.num_hidden_layers) {
    throw ConfigError(config.name() + ": 'layer_types' has " + std::to_string(types.size()) +
                      " entries; allowed are " + std::to_string(values.num_hidden_layers) +
                      ", one for each of 'num_hidden_layers'");
  }
}

LlamaConfig read_llama(const PretrainedConfig& config) {
  const LlamaKind kind = kind_of(config);
  detail::check_common_keys(config);
  LlamaConfig values = detail::read_config(config, defaults_of(kind));
  detail::check_activation(config, "hidden_act");
  detail::check_padding_row(config, values.pad_token_id, "vocab_size", values.vocab_size);
  read_heads(config, values);
  check_layer_types(config, values);
  if (kind != LlamaKind::llama) values.attention_bias = values.mlp_bias = false;
  if (kind == LlamaKind::llama || (kind == LlamaKind::qwen2 && !values.use_sliding_window))
    values.sliding_window.reset();
  return values;
}

std::string head_name(const PretrainedConfig& config, const char* head) {
  return class_prefix(kind_of(config)) + head;
}

}  // namespace

namespace detail {

LlamaDecoderLayerImpl::LlamaDecoderLayerImpl(const LlamaConfig& config, LlamaKind kind,
                                             std::int64_t index)
    : torch::nn::Module(class_prefix(kind) + "DecoderLayer"),
      index_(static_cast<std::size_t>(index)),
      head_dim_(*config.head_dim),
      attention_dropout_(config.attention_dropout.value_or(0)),
      activation_(activation_of(config.hidden_act)),
      q_proj_(config.hidden_size, config.num_attention_heads * head_dim_,
              config.attention_bias || kind == LlamaKind::qwen2),
      k_proj_(config.hidden_size, *config.num_key_value_heads * head_dim_,
              config.attention_bias || kind == LlamaKind::qwen2),
      v_proj_(config.hidden_size, *config.num_key_value_heads * head_dim_,
              config.attention_bias || kind == LlamaKind::qwen2),
      o_proj_(config.num_attention_heads * head_dim_, config.hidden_size, config.attention_bias),
      gate_proj_(config.hidden_size, config.intermediate_size, config.mlp_bias),
      up_proj_(config.hidden_size, config.intermediate_size, config.mlp_bias),
      down_proj_(config.intermediate_size, config.hidden_size, config.mlp_bias),
      input_layernorm_(class_prefix(kind) + "RMSNorm", config.hidden_size, config.rms_norm_eps),
      post_attention_layernorm_(class_prefix(kind) + "RMSNorm", config.hidden_size,
                                config.rms_norm_eps) {
  auto& attention = part(*this, "self_attn", class_prefix(kind) + "Attention");
  attention.register_module("q_proj", q_proj_);
  attention.register_module("k_proj", k_proj_);
  attention.register_module("v_proj", v_proj_);
  attention.register_module("o_proj", o_proj_);
  auto& mlp = part(*this, "mlp", class_prefix(kind) + "MLP");
  mlp.register_module("gate_proj", gate_proj_);
  mlp.register_module("up_proj", up_proj_);
  mlp.register_module("down_proj", down_proj_);
  register_module("input_layernorm", input_layernorm_);
  register_module("post_attention_layernorm", post_attention_layernorm_);
}

at::Tensor LlamaDecoderLayerImpl::attend(const at::Tensor& hidden, const Tokens& tokens,
                                         const Rotary::Angles& angles, const AttentionSpec& spec,
                                         KeyValueCache* cache) {
  const auto heads_of = [&](const at::Tensor& all) { return all.unflatten(-1, {-1, head_dim_}); };
  const at::Tensor query = rotate(heads_of(q_proj_(hidden)), angles),
                   key = rotate(heads_of(k_proj_(hidden)), angles),
                   value = heads_of(v_proj_(hidden));
  if (cache == nullptr) return attention(query, key, value, tokens, spec);
  const auto [keys, values] = cache->append(index_, key.transpose(1, 2), value.transpose(1, 2));
  return cached_attention(query, keys, values, spec);
}

at::Tensor LlamaDecoderLayerImpl::forward(const at::Tensor& hidden, const Tokens& tokens,
                                          const Rotary::Angles& angles, AttentionSpec spec,
                                          KeyValueCache* cache) {
  spec.dropout = is_training() ? attention_dropout_ : 0;
  const at::Tensor attended =
      hidden + o_proj_(attend(input_layernorm_(hidden), tokens, angles, spec, cache));
  const at::Tensor normed = post_attention_layernorm_(attended);
  return attended + down_proj_(activation_(gate_proj_(normed)) * up_proj_(normed));
}

}  // namespace detail

LlamaModelImpl::LlamaModelImpl(const PretrainedConfig& config)
    : DecoderModel(class_prefix(kind_of(config)) + "Model", config, "model"),
      kind_(kind_of(config)),
      values_(read_llama(config)),
      rotary_(config, *values_.head_dim, values_.max_position_embeddings, layer_types()) {
  embed_tokens = register_module(
      "embed_tokens",
      torch::nn::Embedding(torch::nn::EmbeddingOptions(values_.vocab_size, values_.hidden_size)
                               .padding_idx(values_.pad_token_id)));
  for (std::int64_t i = 0; i < values_.num_hidden_layers; ++i)
    layers_->push_back(detail::LlamaDecoderLayer(values_, kind_, i));
  register_module("layers", layers_);
  norm_ = register_module("norm", detail::RMSNorm(class_prefix(kind_) + "RMSNorm",
                                                  values_.hidden_size, values_.rms_norm_eps));
  post_init();
}

std::vector<std::string> LlamaModelImpl::no_split_modules() const {
  return {class_prefix(kind_) + "DecoderLayer"};
}

ParallelPlan LlamaModelImpl::parallel_plan() const {
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

std::optional<std::int64_t> LlamaModelImpl::window_of(std::int64_t layer) const {
  if (kind_ != LlamaKind::qwen2) return values_.sliding_window;
  const auto& types = values_.layer_types;
  const bool is_full = types.empty() ? layer < values_.max_window_layers
                                     : types[static_cast<std::size_t>(layer)] == "full_attention";
  return is_full ? std::nullopt : values_.sliding_window;
}

std::set<std::string> LlamaModelImpl::layer_types() const {
  std::set<std::string> types(values_.layer_types.begin(), values_.layer_types.end());
  if (!types.empty()) return types;
  for (std::int64_t i = 0; i < values_.num_hidden_layers; ++i)
    types.insert(window_of(i) ? "sliding_attention" : "full_attention");
  return types;
}

detail::Computed LlamaModelImpl::compute(const TextInputs& inputs, const detail::HeadNeeds& needs) {
  auto computed = begin(inputs, needs);
  const detail::Tokens& tokens = computed.tokens;
  detail::check_ids(inputs.input_ids, embed_tokens->weight.size(0), "input_ids");
  const at::Tensor positions = inputs.position_ids.defined()
                                   ? inputs.position_ids
                                   : detail::default_positions(inputs, tokens.past());
  computed.hidden = embed(embed_tokens, tokens.take(inputs.input_ids), tokens.length());
  const auto angles = rotary_.angles(detail::take_positions(positions, inputs, tokens),
                                     computed.hidden.scalar_type());
  detail::AttentionSpec spec{.kind = attention_kind()};
  if (inputs.output_attentions) spec.weights = &computed.attentions;
  const auto device = computed.hidden.device();
  const auto keep = [&] {
    if (inputs.output_hidden_states) computed.hidden_states.push_back(computed.hidden);
  };
  KeyValueCache* cache = computed.past_key_values.get();
  std::optional<std::int64_t> window_of_mask;
  for (std::int64_t i = 0; i < values_.num_hidden_layers; ++i) {
    if (i == 0 || window_of(i) != window_of_mask) {
      window_of_mask = window_of(i);
      spec.mask = detail::causal_mask(tokens, window_of_mask, device);
    }
    keep();
    const auto layer = layers_->ptr<detail::LlamaDecoderLayerImpl>(static_cast<std::size_t>(i));
    computed.hidden = run_block(*layer, computed, inputs, [=](const at::Tensor& hidden) {
      return layer->forward(hidden, tokens, angles, spec, cache);
    });
  }
  computed.hidden = norm_(computed.hidden);
  keep();
  return computed;
}

LlamaForCausalLMImpl::LlamaForCausalLMImpl(const PretrainedConfig& config)
    : DecoderForCausalLM(head_name(config, "ForCausalLM"), config,
                         std::make_shared<LlamaModelImpl>(config), "model",
                         read_llama(config).tie_word_embeddings) {}

LlamaForSequenceClassificationImpl::LlamaForSequenceClassificationImpl(
    const PretrainedConfig& config)
    : DecoderForSequenceClassification(head_name(config, "ForSequenceClassification"), config,
                                       std::make_shared<LlamaModelImpl>(config), "model") {}

LlamaForTokenClassificationImpl::LlamaForTokenClassificationImpl(const PretrainedConfig& config)
    : DecoderForTokenClassification(head_name(config, "ForTokenClassification"), config,
                                    std::make_shared<LlamaModelImpl>(config), "model", "score") {}

// As in Transformers, the decoder of Llama and Qwen 2 has another name here than below other heads.
LlamaForQuestionAnsweringImpl::LlamaForQuestionAnsweringImpl(const PretrainedConfig& config)
    : DecoderForQuestionAnswering(head_name(config, "ForQuestionAnswering"), config,
                                  std::make_shared<LlamaModelImpl>(config),
                                  kind_of(config) == LlamaKind::mistral ? "model" : "transformer") {
}

}  // namespace accelerate
