#include "accelerate/transformers/models/architectures/distilbert.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/relu.h>

#include <cmath>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/config/architecture_config.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/part.h"

namespace accelerate {
namespace {

constexpr double kEpsilon = 1e-12;

torch::nn::LayerNorm layer_norm(std::int64_t size) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({size}).eps(kEpsilon));
}

DistilBertConfig read_distilbert(const PretrainedConfig& config) {
  detail::check_common_keys(config);
  const auto values = detail::read_config<DistilBertConfig>(config);
  detail::check_activation(config, "activation");
  detail::check_heads(config, {"n_heads", values.n_heads, "dim", values.dim});
  detail::check_padding_row(config, values.pad_token_id, "vocab_size", values.vocab_size);
  return values;
}

// {positions, dim}: sines in even columns, cosines in odd ones.
at::Tensor sinusoids(std::int64_t positions, std::int64_t dim) {
  // On the CPU even where the model is made without memory.
  at::Tensor table = at::empty({positions, dim}, at::TensorOptions(at::kFloat).device(at::kCPU));
  auto* values = table.mutable_data_ptr<float>();
  for (std::int64_t position = 0; position < positions; ++position) {
    for (std::int64_t i = 0; i < dim; ++i) {
      const double angle =
          static_cast<double>(position) /
          std::pow(10000.0, 2.0 * static_cast<double>(i / 2) / static_cast<double>(dim));
      *values++ = static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

}  // namespace

namespace detail {

DistilBertEmbeddingsImpl::DistilBertEmbeddingsImpl(const DistilBertConfig& config)
    : torch::nn::Module("Embeddings"),
      word_embeddings(torch::nn::EmbeddingOptions(config.vocab_size, config.dim)
                          .padding_idx(config.pad_token_id)),
      position_embeddings(config.max_position_embeddings, config.dim),
      norm_(layer_norm(config.dim)),
      dropout_(config.dropout) {
  register_module("word_embeddings", word_embeddings);
  register_module("position_embeddings", position_embeddings);
  register_module("LayerNorm", norm_);
}

at::Tensor DistilBertEmbeddingsImpl::forward(const at::Tensor& words,
                                             const at::Tensor& position_ids) {
  const at::Tensor sum = words + position_embeddings(position_ids);
  return detail::dropout_of(norm_(sum), dropout_, is_training());
}

TransformerBlockImpl::TransformerBlockImpl(const DistilBertConfig& config)
    : torch::nn::Module("TransformerBlock"),
      heads_(config.n_heads),
      dropout_(config.dropout),
      attention_dropout_(config.attention_dropout),
      activation_(activation_of(config.activation)),
      query_(config.dim, config.dim),
      key_(config.dim, config.dim),
      value_(config.dim, config.dim),
      attention_output_(config.dim, config.dim),
      intermediate_(config.dim, config.hidden_dim),
      output_(config.hidden_dim, config.dim),
      attention_norm_(layer_norm(config.dim)),
      output_norm_(layer_norm(config.dim)) {
  auto& attention = part(*this, "attention", "DistilBertSelfAttention");
  attention.register_module("q_lin", query_);
  attention.register_module("k_lin", key_);
  attention.register_module("v_lin", value_);
  attention.register_module("out_lin", attention_output_);
  register_module("sa_layer_norm", attention_norm_);
  auto& ffn = part(*this, "ffn", "FFN");
  ffn.register_module("lin1", intermediate_);
  ffn.register_module("lin2", output_);
  register_module("output_layer_norm", output_norm_);
}

at::Tensor TransformerBlockImpl::forward(const at::Tensor& hidden, const Tokens& tokens,
                                         AttentionSpec spec) {
  const auto heads_of = [&](const at::Tensor& all) { return all.unflatten(-1, {heads_, -1}); };
  spec.dropout = is_training() ? attention_dropout_ : 0;
  const at::Tensor read = spec.first_alone ? tokens.first(hidden) : hidden;
  const at::Tensor context = attention(heads_of(query_(read)), heads_of(key_(hidden)),
                                       heads_of(value_(hidden)), tokens, spec);
  const at::Tensor attended = attention_norm_(attention_output_(context) + read);
  const at::Tensor fed = output_(activation_(intermediate_(attended)));
  return output_norm_(detail::dropout_of(fed, dropout_, is_training()) + attended);
}

}  // namespace detail

DistilBertModelImpl::DistilBertModelImpl(const PretrainedConfig& config)
    : TextModel("DistilBertModel", config, "distilbert"), values_(read_distilbert(config)) {
  embeddings = register_module("embeddings", detail::DistilBertEmbeddings(values_));
  for (std::int64_t i = 0; i < values_.n_layers; ++i)
    layers_->push_back(detail::TransformerBlock(values_));
  detail::part(*this, "transformer", "Transformer").register_module("layer", layers_);
  post_init();
}

std::vector<std::string> DistilBertModelImpl::no_split_modules() const {
  return {"TransformerBlock"};
}

ParallelPlan DistilBertModelImpl::parallel_plan() const {
  using enum ParallelPlan::Cut;
  return {.tensor_parallel = {{"transformer.layer.*.attention.q_lin", colwise},
                              {"transformer.layer.*.attention.k_lin", colwise},
                              {"transformer.layer.*.attention.v_lin", colwise},
                              {"transformer.layer.*.attention.out_lin", rowwise},
                              {"transformer.layer.*.ffn.lin1", colwise},
                              {"transformer.layer.*.ffn.lin2", rowwise}},
          .pipeline = {{"embeddings"}, {"transformer.layer.*"}}};
}

void DistilBertModelImpl::init_weights(torch::nn::Module& module,
                                       detail::WeightInitialiser& initialiser) {
  TextModel::init_weights(module, initialiser);
  if (&module != embeddings.get() || !values_.sinusoidal_pos_embds) return;
  initialiser.copy(embeddings->position_embeddings->weight,
                   sinusoids(values_.max_position_embeddings, values_.dim));
}

detail::Computed DistilBertModelImpl::encode(const TextInputs& inputs, detail::HeadNeeds needs) {
  detail::check_is_encoding(inputs, name());
  detail::Computed computed{.tokens = detail::tokens_of(
                                inputs, needs, {drops_padding(), detail::SequenceRule::restarts})};
  const detail::Tokens& tokens = computed.tokens;
  const at::Tensor positions =
      inputs.position_ids.defined() ? inputs.position_ids : detail::default_positions(inputs);
  detail::check_ids(inputs.input_ids, embeddings->word_embeddings->weight.size(0), "input_ids");
  detail::check_positions(positions, values_.max_position_embeddings, inputs);
  const at::Tensor words =
      embed(embeddings->word_embeddings, tokens.take(inputs.input_ids), tokens.length());
  computed.hidden = embeddings(words, detail::take_positions(positions, inputs, tokens));
  detail::AttentionSpec spec{.kind = attention_kind(), .mask = {.values = tokens.mask()}};
  if (inputs.output_attentions) spec.weights = &computed.attentions;
  const auto keep = [&] {
    if (inputs.output_hidden_states) computed.hidden_states.push_back(computed.hidden);
  };
  keep();
  for (const auto& layer : *layers_) {
    spec.first_alone = needs.first_alone && layer == *(layers_->end() - 1);
    auto* block = layer->as<detail::TransformerBlock>();
    computed.hidden = run_block(*layer, computed, inputs, [=](const at::Tensor& hidden) {
      return block->forward(hidden, tokens, spec);
    });
    keep();
  }
  computed.first_alone = needs.first_alone && !layers_->is_empty();
  return computed;
}

ModelOutput DistilBertModelImpl::forward(const TextInputs& inputs) {
  const auto computed = encode(inputs, {});
  ModelOutput output = computed.output();
  output.last_hidden_state = computed.tokens.restore(computed.hidden);
  return output;
}

// --- Heads ---

DistilBertWithHead::DistilBertWithHead(const std::string& name, const PretrainedConfig& config)
    : TextModel(name, config, "distilbert"), distilbert(config) {
  register_module("distilbert", distilbert);
}

std::vector<std::string> DistilBertWithHead::no_split_modules() const {
  return distilbert->no_split_modules();
}

DistilBertForSequenceClassificationImpl::DistilBertForSequenceClassificationImpl(
    const PretrainedConfig& config)
    : DistilBertWithHead("DistilBertForSequenceClassification", config),
      pre_classifier(distilbert->values().dim, distilbert->values().dim),
      classifier(distilbert->values().dim, config.num_labels()) {
  register_module("pre_classifier", pre_classifier);
  register_module("classifier", classifier);
  post_init();
}

ModelOutput DistilBertForSequenceClassificationImpl::forward(const TextInputs& inputs) {
  const auto computed = distilbert->encode(inputs, detail::HeadNeeds::first_of_rows(inputs));
  const at::Tensor pooled = at::relu(pre_classifier(computed.first()));
  const double dropout = distilbert->values().seq_classif_dropout;
  return detail::row_output(
      computed, classifier(detail::dropout_of(pooled, dropout, is_training())), inputs, config());
}

DistilBertForTokenClassificationImpl::DistilBertForTokenClassificationImpl(
    const PretrainedConfig& config)
    : DistilBertWithHead("DistilBertForTokenClassification", config),
      classifier(distilbert->values().dim, config.num_labels()) {
  register_module("classifier", classifier);
  post_init();
}

ModelOutput DistilBertForTokenClassificationImpl::forward(const TextInputs& inputs) {
  const auto computed = distilbert->encode(inputs, {.token_labels = inputs.labels});
  const at::Tensor hidden =
      detail::dropout_of(computed.hidden, distilbert->values().dropout, is_training());
  return detail::token_output(computed, classifier(hidden), inputs);
}

DistilBertForQuestionAnsweringImpl::DistilBertForQuestionAnsweringImpl(
    const PretrainedConfig& config)
    : DistilBertWithHead("DistilBertForQuestionAnswering", config),
      qa_outputs(distilbert->values().dim, 2) {
  detail::check_two_labels(config);
  register_module("qa_outputs", qa_outputs);
  post_init();
}

ModelOutput DistilBertForQuestionAnsweringImpl::forward(const TextInputs& inputs) {
  // The loss is a softmax over the tokens of a row, padding included.
  const auto computed =
      distilbert->encode(inputs, {.all_tokens = inputs.start_positions.defined()});
  const at::Tensor hidden =
      detail::dropout_of(computed.hidden, distilbert->values().qa_dropout, is_training());
  return detail::span_output(computed, qa_outputs(hidden), inputs);
}

DistilBertForMaskedLMImpl::DistilBertForMaskedLMImpl(const PretrainedConfig& config)
    : DistilBertWithHead("DistilBertForMaskedLM", config),
      vocab_transform(distilbert->values().dim, distilbert->values().dim),
      vocab_projector(distilbert->values().dim, distilbert->values().vocab_size),
      norm_(layer_norm(distilbert->values().dim)) {
  register_module("vocab_transform", vocab_transform);
  register_module("vocab_layer_norm", norm_);
  register_module("vocab_projector", vocab_projector);
  post_init();
}

void DistilBertForMaskedLMImpl::tie_weights() {
  if (distilbert->values().tie_word_embeddings)
    vocab_projector->tie_weight(input_embeddings()->weight);
}

ModelOutput DistilBertForMaskedLMImpl::forward(const TextInputs& inputs) {
  const auto computed = distilbert->encode(inputs, {.token_labels = inputs.labels});
  const auto activation = detail::activation_of(distilbert->values().activation);
  const at::Tensor hidden = norm_(activation(vocab_transform(computed.hidden)));
  return detail::token_output(computed, vocab_projector(hidden), inputs);
}

DistilBertForMultipleChoiceImpl::DistilBertForMultipleChoiceImpl(const PretrainedConfig& config)
    : DistilBertWithHead("DistilBertForMultipleChoice", config),
      pre_classifier(distilbert->values().dim, distilbert->values().dim),
      classifier(distilbert->values().dim, 1) {
  register_module("pre_classifier", pre_classifier);
  register_module("classifier", classifier);
  post_init();
}

ModelOutput DistilBertForMultipleChoiceImpl::forward(const TextInputs& inputs) {
  const auto computed =
      distilbert->encode(detail::choices_as_rows(inputs), detail::HeadNeeds::first_of_rows(inputs));
  const at::Tensor pooled = at::relu(pre_classifier(computed.first()));
  const double dropout = distilbert->values().seq_classif_dropout;
  return detail::choice_output(computed,
                               classifier(detail::dropout_of(pooled, dropout, is_training())),
                               inputs.input_ids.size(1), inputs);
}

}  // namespace accelerate
