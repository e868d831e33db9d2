#include "accelerate/transformers/models/architectures/bert.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/config/architecture_config.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/part.h"
#include "accelerate/transformers/models/losses.h"

namespace accelerate {
namespace {

torch::nn::LayerNorm layer_norm(std::int64_t size, double epsilon) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({size}).eps(epsilon));
}

BertConfig read_bert(const PretrainedConfig& config, const detail::BertFamily& family) {
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (config.get<bool>(key, false))
      throw ConfigError(config.name() + ": '" + key + "' is true; allowed is an encoder");
  }
  detail::check_common_keys(config);
  // Transformers 5 computes absolute positions whatever the file says: not what was trained.
  const char* const positions = "position_embedding_type";
  if (config.json_of(positions) != "null" && config.json_of(positions) != "\"absolute\"")
    config.refuse(positions, "absolute");
  const auto values = detail::read_config(config, family.defaults);
  detail::check_activation(config, "hidden_act");
  detail::check_heads(config, {"num_attention_heads", values.num_attention_heads, "hidden_size",
                               values.hidden_size});
  detail::check_padding_row(config, values.pad_token_id, "vocab_size", values.vocab_size);
  if (!family.counts_behind_padding) return values;
  if (!values.pad_token_id)
    throw ConfigError(config.name() + ": there is no pad_token_id, behind which positions begin");
  detail::check_padding_row(config, values.pad_token_id, "max_position_embeddings",
                            values.max_position_embeddings);
  return values;
}

}  // namespace

namespace detail {

BertEmbeddingsImpl::BertEmbeddingsImpl(const BertConfig& config, const BertFamily& family)
    : torch::nn::Module(family.class_prefix + "Embeddings"),
      word_embeddings(torch::nn::EmbeddingOptions(config.vocab_size, config.hidden_size)
                          .padding_idx(config.pad_token_id)),
      position_embeddings(
          torch::nn::EmbeddingOptions(config.max_position_embeddings, config.hidden_size)
              .padding_idx(family.counts_behind_padding ? config.pad_token_id : std::nullopt)),
      token_type_embeddings(config.type_vocab_size, config.hidden_size),
      norm(layer_norm(config.hidden_size, config.layer_norm_eps)),
      dropout_(config.hidden_dropout_prob) {
  register_module("word_embeddings", word_embeddings);
  // In Transformers' order, in which random values are drawn.
  if (!family.counts_behind_padding) register_module("position_embeddings", position_embeddings);
  register_module("token_type_embeddings", token_type_embeddings);
  register_module("LayerNorm", norm);
  if (family.counts_behind_padding) register_module("position_embeddings", position_embeddings);
}

at::Tensor BertEmbeddingsImpl::forward(const at::Tensor& words, const at::Tensor& token_type_ids,
                                       const at::Tensor& position_ids) {
  const at::Tensor sum =
      words + token_type_embeddings(token_type_ids) + position_embeddings(position_ids);
  return detail::dropout_of(norm(sum), dropout_, is_training());
}

BertLayerImpl::BertLayerImpl(const BertConfig& config, const BertFamily& family)
    : torch::nn::Module(family.class_prefix + "Layer"),
      heads_(config.num_attention_heads),
      dropout_(config.hidden_dropout_prob),
      attention_dropout_(config.attention_probs_dropout_prob),
      activation_(activation_of(config.hidden_act)),
      query_(config.hidden_size, config.hidden_size),
      key_(config.hidden_size, config.hidden_size),
      value_(config.hidden_size, config.hidden_size),
      attention_output_(config.hidden_size, config.hidden_size),
      intermediate_(config.hidden_size, config.intermediate_size),
      output_(config.intermediate_size, config.hidden_size),
      attention_norm_(layer_norm(config.hidden_size, config.layer_norm_eps)),
      output_norm_(layer_norm(config.hidden_size, config.layer_norm_eps)) {
  const auto named = [&](const char* what) { return family.class_prefix + what; };
  auto& attention = part(*this, "attention", named("Attention"));
  auto& self = part(attention, "self", named("SelfAttention"));
  self.register_module("query", query_);
  self.register_module("key", key_);
  self.register_module("value", value_);
  auto& attention_output = part(attention, "output", named("SelfOutput"));
  attention_output.register_module("dense", attention_output_);
  attention_output.register_module("LayerNorm", attention_norm_);
  part(*this, "intermediate", named("Intermediate")).register_module("dense", intermediate_);
  auto& output = part(*this, "output", named("Output"));
  output.register_module("dense", output_);
  output.register_module("LayerNorm", output_norm_);
}

at::Tensor BertLayerImpl::forward(const at::Tensor& hidden, const Tokens& tokens,
                                  AttentionSpec spec) {
  const auto heads_of = [&](const at::Tensor& all) { return all.unflatten(-1, {heads_, -1}); };
  const auto dropped = [&](const at::Tensor& x) {
    return detail::dropout_of(x, dropout_, is_training());
  };
  spec.dropout = is_training() ? attention_dropout_ : 0;
  const at::Tensor read = spec.first_alone ? tokens.first(hidden) : hidden;
  const at::Tensor context = attention(heads_of(query_(read)), heads_of(key_(hidden)),
                                       heads_of(value_(hidden)), tokens, spec);
  const at::Tensor attended = attention_norm_(dropped(attention_output_(context)) + read);
  return output_norm_(dropped(output_(activation_(intermediate_(attended)))) + attended);
}

BertLMPredictionHeadImpl::BertLMPredictionHeadImpl(const BertConfig& config)
    : torch::nn::Module("BertLMPredictionHead"),
      decoder(config.hidden_size, config.vocab_size),
      activation_(activation_of(config.hidden_act)),
      dense_(config.hidden_size, config.hidden_size),
      norm_(layer_norm(config.hidden_size, config.layer_norm_eps)) {
  auto& transform = part(*this, "transform", "BertPredictionHeadTransform");
  transform.register_module("dense", dense_);
  transform.register_module("LayerNorm", norm_);
  register_module("decoder", decoder);
  bias = register_parameter("bias", at::zeros({config.vocab_size}));
}

at::Tensor BertLMPredictionHeadImpl::forward(const at::Tensor& hidden) {
  return decoder(norm_(activation_(dense_(hidden))));
}

}  // namespace detail

BertModelImpl::BertModelImpl(const PretrainedConfig& config, bool add_pooling_layer,
                             const detail::BertFamily& family)
    : TextModel(family.class_prefix + "Model", config, family.base_model_prefix),
      values_(read_bert(config, family)),
      family_(family) {
  embeddings = register_module("embeddings", detail::BertEmbeddings(values_, family));
  for (std::int64_t i = 0; i < values_.num_hidden_layers; ++i)
    layers_->push_back(detail::BertLayer(values_, family));
  detail::part(*this, "encoder", family.class_prefix + "Encoder").register_module("layer", layers_);
  if (add_pooling_layer) {
    pooler_ = detail::Linear(values_.hidden_size, values_.hidden_size);
    detail::part(*this, "pooler", family.class_prefix + "Pooler").register_module("dense", pooler_);
  }
  post_init();
}

std::vector<std::string> BertModelImpl::no_split_modules() const {
  return {family_.class_prefix + "Embeddings", family_.class_prefix + "Layer"};
}

ParallelPlan BertModelImpl::parallel_plan() const {
  using enum ParallelPlan::Cut;
  ParallelPlan plan{.tensor_parallel = {{"encoder.layer.*.attention.self.query", colwise},
                                        {"encoder.layer.*.attention.self.key", colwise},
                                        {"encoder.layer.*.attention.self.value", colwise},
                                        {"encoder.layer.*.attention.output.dense", rowwise},
                                        {"encoder.layer.*.intermediate.dense", colwise},
                                        {"encoder.layer.*.output.dense", rowwise}},
                    .pipeline = {{"embeddings"}, {"encoder.layer.*"}}};
  if (!pooler_.is_empty()) plan.pipeline.push_back({"pooler"});
  return plan;
}

at::Tensor BertModelImpl::positions_of(const TextInputs& inputs) const {
  if (inputs.position_ids.defined()) return inputs.position_ids;
  if (!family_.counts_behind_padding) return detail::default_positions(inputs);
  const std::int64_t padding = *values_.pad_token_id;
  if (inputs.cu_seq_lens_q.defined()) return detail::default_positions(inputs) + (padding + 1);
  const at::Tensor counts = inputs.input_ids.ne(padding).to(at::kLong);
  return counts.cumsum(1) * counts + padding;
}

detail::Computed BertModelImpl::encode(const TextInputs& inputs, detail::HeadNeeds needs) {
  detail::check_is_encoding(inputs, name());
  const at::Tensor& ids = inputs.input_ids;
  detail::Computed computed{.tokens = detail::tokens_of(
                                inputs, needs, {drops_padding(), detail::SequenceRule::restarts})};
  const detail::Tokens& tokens = computed.tokens;
  detail::check_ids(ids, embeddings->word_embeddings->weight.size(0), "input_ids");
  const at::Tensor positions = positions_of(inputs);
  const at::Tensor types =
      inputs.token_type_ids.defined() ? inputs.token_type_ids : at::zeros_like(ids);
  detail::check_positions(positions, values_.max_position_embeddings, inputs);
  detail::check_ids(types, values_.type_vocab_size, "token_type_ids");
  const at::Tensor words = embed(embeddings->word_embeddings, tokens.take(ids), tokens.length());
  computed.hidden =
      embeddings(words, tokens.take(types), detail::take_positions(positions, inputs, tokens));
  detail::AttentionSpec spec{.kind = attention_kind(), .mask = {.values = tokens.mask()}};
  if (inputs.output_attentions) spec.weights = &computed.attentions;
  const auto keep = [&] {
    if (inputs.output_hidden_states) computed.hidden_states.push_back(computed.hidden);
  };
  keep();
  for (const auto& layer : *layers_) {
    spec.first_alone = needs.first_alone && layer == *(layers_->end() - 1);
    auto* block = layer->as<detail::BertLayer>();
    computed.hidden = run_block(*layer, computed, inputs, [=](const at::Tensor& hidden) {
      return block->forward(hidden, tokens, spec);
    });
    keep();
  }
  computed.first_alone = needs.first_alone && !layers_->is_empty();
  return computed;
}

at::Tensor BertModelImpl::pool(const detail::Computed& computed) {
  return at::tanh(pooler_(computed.first()));
}

ModelOutput BertModelImpl::forward(const TextInputs& inputs) {
  const auto computed = encode(inputs, {.first_token = !pooler_.is_empty()});
  const at::Tensor pooled = pooler_.is_empty() ? at::Tensor() : pool(computed);
  ModelOutput output = computed.output();
  output.last_hidden_state = computed.tokens.restore(computed.hidden);
  output.pooler_output = pooled;
  return output;
}

// --- Heads ---

BertWithHead::BertWithHead(const std::string& head, const PretrainedConfig& config,
                           bool add_pooling_layer, const detail::BertFamily& family)
    : TextModel(family.class_prefix + head, config, family.base_model_prefix),
      bert(config, add_pooling_layer, family) {
  register_module(family.base_model_prefix, bert);
}

std::vector<std::string> BertWithHead::no_split_modules() const {
  return bert->no_split_modules();
}

at::Tensor BertWithHead::dropped(const at::Tensor& hidden) const {
  const BertConfig& values = bert->values();
  const double share = values.classifier_dropout.value_or(values.hidden_dropout_prob);
  return detail::dropout_of(hidden, share, is_training());
}

BertForSequenceClassificationImpl::BertForSequenceClassificationImpl(const PretrainedConfig& config)
    : BertWithHead("ForSequenceClassification", config, true, {}),
      classifier(bert->values().hidden_size, config.num_labels()) {
  register_module("classifier", classifier);
  post_init();
}

ModelOutput BertForSequenceClassificationImpl::forward(const TextInputs& inputs) {
  const auto computed = bert->encode(inputs, detail::HeadNeeds::first_of_rows(inputs));
  return detail::row_output(computed, classifier(dropped(bert->pool(computed))), inputs, config());
}

BertForTokenClassificationImpl::BertForTokenClassificationImpl(const PretrainedConfig& config,
                                                               const detail::BertFamily& family)
    : BertWithHead("ForTokenClassification", config, false, family),
      classifier(bert->values().hidden_size, config.num_labels()) {
  register_module("classifier", classifier);
  post_init();
}

ModelOutput BertForTokenClassificationImpl::forward(const TextInputs& inputs) {
  const auto computed = bert->encode(inputs, {.token_labels = inputs.labels});
  return detail::token_output(computed, classifier(dropped(computed.hidden)), inputs);
}

BertForQuestionAnsweringImpl::BertForQuestionAnsweringImpl(const PretrainedConfig& config,
                                                           const detail::BertFamily& family)
    : BertWithHead("ForQuestionAnswering", config, false, family),
      qa_outputs(bert->values().hidden_size, config.num_labels()) {
  detail::check_two_labels(config);
  register_module("qa_outputs", qa_outputs);
  post_init();
}

ModelOutput BertForQuestionAnsweringImpl::forward(const TextInputs& inputs) {
  // The loss is a softmax over the tokens of a row, padding included.
  const auto computed = bert->encode(inputs, {.all_tokens = inputs.start_positions.defined()});
  return detail::span_output(computed, qa_outputs(computed.hidden), inputs);
}

BertForMaskedLMImpl::BertForMaskedLMImpl(const PretrainedConfig& config)
    : BertWithHead("ForMaskedLM", config, false, {}), predictions(bert->values()) {
  detail::part(*this, "cls", "BertOnlyMLMHead").register_module("predictions", predictions);
  post_init();
}

void BertForMaskedLMImpl::tie_weights() {
  if (!bert->values().tie_word_embeddings) return;
  predictions->decoder->tie_bias(predictions->bias);
  predictions->decoder->tie_weight(bert->embeddings->word_embeddings->weight);
}

ModelOutput BertForMaskedLMImpl::forward(const TextInputs& inputs) {
  const auto computed = bert->encode(inputs, {.token_labels = inputs.labels});
  return detail::token_output(computed, predictions(computed.hidden), inputs);
}

BertForMultipleChoiceImpl::BertForMultipleChoiceImpl(const PretrainedConfig& config,
                                                     const detail::BertFamily& family)
    : BertWithHead("ForMultipleChoice", config, true, family),
      classifier(bert->values().hidden_size, 1) {
  register_module("classifier", classifier);
  post_init();
}

ModelOutput BertForMultipleChoiceImpl::forward(const TextInputs& inputs) {
  const auto computed =
      bert->encode(detail::choices_as_rows(inputs), detail::HeadNeeds::first_of_rows(inputs));
  return detail::choice_output(computed, classifier(dropped(bert->pool(computed))),
                               inputs.input_ids.size(1), inputs);
}

}  // namespace accelerate
