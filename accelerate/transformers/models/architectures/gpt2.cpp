#include "accelerate/transformers/models/architectures/gpt2.h"

#include <ATen/TensorOperators.h>

#include <cmath>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/config/architecture_config.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/part.h"
#include "accelerate/transformers/models/weight_initialiser.h"

namespace accelerate {
namespace {

torch::nn::LayerNorm layer_norm(const Gpt2Config& config) {
  return torch::nn::LayerNorm(
      torch::nn::LayerNormOptions({config.n_embd}).eps(config.layer_norm_epsilon));
}

Gpt2Config read_gpt2(const PretrainedConfig& config) {
  if (config.get<bool>("add_cross_attention", false))
    throw ConfigError(config.name() +
                      ": 'add_cross_attention' is true; allowed is GPT-2 by itself");
  if (config.get<bool>("reorder_and_upcast_attn", false))
    throw ConfigError(config.name() + ": 'reorder_and_upcast_attn' is true; allowed is false");
  detail::check_common_keys(config);
  const auto values = detail::read_config<Gpt2Config>(config);
  detail::check_activation(config, "activation_function");
  detail::check_heads(config, {"n_head", values.n_head, "n_embd", values.n_embd});
  return values;
}

double scale_of(const Gpt2Config& config, std::int64_t layer) {
  const auto dim = static_cast<double>(config.n_embd / config.n_head);
  const double scale = config.scale_attn_weights ? 1 / std::sqrt(dim) : 1;
  return config.scale_attn_by_inverse_layer_idx ? scale / static_cast<double>(layer + 1) : scale;
}

}  // namespace

namespace detail {

Gpt2BlockImpl::Gpt2BlockImpl(const Gpt2Config& config, std::int64_t index)
    : torch::nn::Module("GPT2Block"),
      index_(static_cast<std::size_t>(index)),
      heads_(config.n_head),
      scale_(scale_of(config, index)),
      attention_dropout_(config.attn_pdrop),
      dropout_(config.resid_pdrop),
      activation_(activation_of(config.activation_function)),
      ln_1_(layer_norm(config)),
      ln_2_(layer_norm(config)),
      c_attn_(config.n_embd, 3 * config.n_embd),
      attention_c_proj_(config.n_embd, config.n_embd),
      c_fc_(config.n_embd, config.n_inner.value_or(4 * config.n_embd)),
      mlp_c_proj_(config.n_inner.value_or(4 * config.n_embd), config.n_embd) {
  register_module("ln_1", ln_1_);
  auto& attention = part(*this, "attn", "GPT2Attention");
  attention.register_module("c_attn", c_attn_);
  attention.register_module("c_proj", attention_c_proj_);
  register_module("ln_2", ln_2_);
  auto& mlp = part(*this, "mlp", "GPT2MLP");
  mlp.register_module("c_fc", c_fc_);
  mlp.register_module("c_proj", mlp_c_proj_);
}

at::Tensor Gpt2BlockImpl::attend(const at::Tensor& hidden, const Tokens& tokens,
                                 const AttentionSpec& spec, KeyValueCache* cache) {
  const auto parts = c_attn_(hidden).chunk(3, -1);
  const auto heads_of = [&](const at::Tensor& all) { return all.unflatten(-1, {heads_, -1}); };
  const at::Tensor query = heads_of(parts[0]), key = heads_of(parts[1]), value = heads_of(parts[2]);
  if (cache == nullptr) return attention(query, key, value, tokens, spec);
  const auto [keys, values] = cache->append(index_, key.transpose(1, 2), value.transpose(1, 2));
  return cached_attention(query, keys, values, spec);
}

at::Tensor Gpt2BlockImpl::forward(const at::Tensor& hidden, const Tokens& tokens,
                                  AttentionSpec spec, KeyValueCache* cache) {
  spec.scale = scale_;
  spec.dropout = is_training() ? attention_dropout_ : 0;
  const auto dropped = [&](const at::Tensor& x) {
    return detail::dropout_of(x, dropout_, is_training());
  };
  const at::Tensor attended =
      dropped(attention_c_proj_(attend(ln_1_(hidden), tokens, spec, cache))) + hidden;
  return attended + dropped(mlp_c_proj_(activation_(c_fc_(ln_2_(attended)))));
}

}  // namespace detail

Gpt2ModelImpl::Gpt2ModelImpl(const PretrainedConfig& config)
    : DecoderModel("GPT2Model", config, "transformer"), values_(read_gpt2(config)) {
  wte = register_module("wte", torch::nn::Embedding(values_.vocab_size, values_.n_embd));
  wpe = register_module("wpe", torch::nn::Embedding(values_.n_positions, values_.n_embd));
  for (std::int64_t i = 0; i < values_.n_layer; ++i) h_->push_back(detail::Gpt2Block(values_, i));
  register_module("h", h_);
  ln_f_ = register_module("ln_f", layer_norm(values_));
  post_init();
}

bool Gpt2ModelImpl::ignores(const std::string& name) const {
  // Older files hold masks.
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         DecoderModel::ignores(name);
}

ParallelPlan Gpt2ModelImpl::parallel_plan() const {
  using enum ParallelPlan::Cut;
  return {.tensor_parallel = {{"h.*.attn.c_attn", colwise, /*parts=*/3},
                              {"h.*.attn.c_proj", rowwise},
                              {"h.*.mlp.c_fc", colwise},
                              {"h.*.mlp.c_proj", rowwise}},
          .pipeline = {{"wte", "wpe"}, {"h.*"}, {"ln_f"}}};
}

void Gpt2ModelImpl::init_weights(torch::nn::Module& module,
                                 detail::WeightInitialiser& initialiser) {
  DecoderModel::init_weights(module, initialiser);
  // Two layers of each block are added to the residual path, which grows with the depth: their
  // weights begin smaller.
  if (module.name() != "GPT2Attention" && module.name() != "GPT2MLP") return;
  const auto projection = module.named_children()["c_proj"];
  initialiser.normal_again(
      projection->as<detail::Conv1D>()->weight,
      values_.initializer_range / std::sqrt(2.0 * static_cast<double>(values_.n_layer)));
}

detail::Computed Gpt2ModelImpl::compute(const TextInputs& inputs, const detail::HeadNeeds& needs) {
  auto computed = begin(inputs, needs);
  const detail::Tokens& tokens = computed.tokens;
  const at::Tensor positions = inputs.position_ids.defined()
                                   ? inputs.position_ids
                                   : detail::default_positions(inputs, tokens.past());
  detail::check_ids(inputs.input_ids, wte->weight.size(0), "input_ids");
  detail::check_positions(positions, values_.n_positions, inputs);
  computed.hidden = embed(wte, tokens.take(inputs.input_ids), tokens.length()) +
                    wpe(detail::take_positions(positions, inputs, tokens));
  if (inputs.token_type_ids.defined()) {
    detail::check_ids(inputs.token_type_ids, wte->weight.size(0), "token_type_ids");
    computed.hidden = computed.hidden + wte(tokens.take(inputs.token_type_ids));
  }
  computed.hidden = detail::dropout_of(computed.hidden, values_.embd_pdrop, is_training());
  detail::AttentionSpec spec{.kind = attention_kind(),
                             .mask = detail::causal_mask(tokens, {}, computed.hidden.device())};
  if (inputs.output_attentions) spec.weights = &computed.attentions;
  const auto keep = [&] {
    if (inputs.output_hidden_states) computed.hidden_states.push_back(computed.hidden);
  };
  KeyValueCache* cache = computed.past_key_values.get();
  for (std::size_t i = 0; i < h_->size(); ++i) {
    keep();
    const auto block = h_->ptr<detail::Gpt2BlockImpl>(i);
    computed.hidden = run_block(*block, computed, inputs, [=](const at::Tensor& hidden) {
      return block->forward(hidden, tokens, spec, cache);
    });
  }
  computed.hidden = ln_f_(computed.hidden);
  keep();
  return computed;
}

Gpt2LMHeadModelImpl::Gpt2LMHeadModelImpl(const PretrainedConfig& config)
    : DecoderForCausalLM("GPT2LMHeadModel", config, std::make_shared<Gpt2ModelImpl>(config),
                         "transformer", read_gpt2(config).tie_word_embeddings) {}

Gpt2ForSequenceClassificationImpl::Gpt2ForSequenceClassificationImpl(const PretrainedConfig& config)
    : DecoderForSequenceClassification("GPT2ForSequenceClassification", config,
                                       std::make_shared<Gpt2ModelImpl>(config), "transformer") {}

Gpt2ForTokenClassificationImpl::Gpt2ForTokenClassificationImpl(const PretrainedConfig& config)
    : DecoderForTokenClassification("GPT2ForTokenClassification", config,
                                    std::make_shared<Gpt2ModelImpl>(config), "transformer",
                                    "classifier") {}

Gpt2ForQuestionAnsweringImpl::Gpt2ForQuestionAnsweringImpl(const PretrainedConfig& config)
    : DecoderForQuestionAnswering("GPT2ForQuestionAnswering", config,
                                  std::make_shared<Gpt2ModelImpl>(config), "transformer") {}

}  // namespace accelerate
