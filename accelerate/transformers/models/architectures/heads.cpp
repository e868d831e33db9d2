#include "accelerate/transformers/models/architectures/heads.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/config/limits.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/losses.h"

namespace accelerate::detail {
namespace {

void check_labels_of_tokens(const TextInputs& inputs) {
  if (inputs.labels.sizes() != inputs.input_ids.sizes())
    throw UsageError("labels of tokens have the shape of input_ids, one number a token");
}

// logits: {B, C}.
at::Tensor classification_loss(const at::Tensor& logits, const TextInputs& inputs,
                               const PretrainedConfig& config) {
  return sequence_classification_loss(logits, inputs.labels,
                                      config.get<std::string>("problem_type", ""),
                                      inputs.num_items_in_batch);
}

// logits: {…, C} in the layout of the tokens, with labels {B, T}.
ModelOutput token_output(const Computed& computed, const at::Tensor& logits,
                         const TextInputs& inputs, bool has_loss_in_fp32 = false) {
  ModelOutput output = computed.output();
  if (inputs.labels.defined()) {
    check_labels_of_tokens(inputs);
    output.loss =
        cross_entropy((has_loss_in_fp32 ? in_fp32(logits) : logits).flatten(0, -2),
                      computed.tokens.take(inputs.labels).reshape({-1}), inputs.num_items_in_batch);
  }
  output.logits = computed.tokens.restore(logits);
  return output;
}

// Reshapes {B, choices, T} to {B · choices, T}, which a model without its head takes.
TextInputs choices_as_rows(const TextInputs& inputs) {
  if (inputs.input_ids.dim() != 3) {
    throw UsageError("input_ids have " + std::to_string(inputs.input_ids.dim()) +
                     " dimensions; of multiple choice they are rows, choices and tokens");
  }
  TextInputs flat = inputs;
  for (at::Tensor* tensor :
       {&flat.input_ids, &flat.attention_mask, &flat.token_type_ids, &flat.position_ids}) {
    if (tensor->defined()) *tensor = tensor->flatten(0, 1);
  }
  return flat;
}

// Whether one of the last `count` tokens of a row is padding.
bool ends_with_padding(const at::Tensor& mask, std::int64_t count) {
  return mask.defined() && mask.dim() == 2 && count > 0 &&
         mask.narrow(1, std::max<std::int64_t>(0, mask.size(1) - count),
                     std::min(count, mask.size(1)))
             .eq(0)
             .any()
             .item<bool>();
}

}  // namespace

TextModelWithHead::TextModelWithHead(BelowHead below)
    : TextModel(below.class_name, below.base->config(), below.prefix),
      base_(register_module(below.prefix, std::move(below.base))),
      transform_(std::move(below.transform)),
      makes_head_first_(below.makes_head_first) {
  if (transform_ != nullptr) register_module("head", transform_);
}

void TextModelWithHead::post_init() {
  if (makes_head_first_) {
    unregister_module(base_model_prefix());
    register_module(base_model_prefix(), base_);
  }
  TextModel::post_init();
}

// --- Of all models ---

TokenClassification::TokenClassification(BelowHead below, const std::string& head, double dropout)
    : TextModelWithHead(std::move(below)),
      dropout_(dropout),
      head_(base().hidden_size(), config().num_labels()) {
  register_module(head, head_);
  post_init();
}

ModelOutput TokenClassification::output_of(const TextInputs& inputs) {
  const auto computed = base().compute(inputs, {.token_labels = inputs.labels});
  const at::Tensor read = dropout_of(transformed(computed.hidden), dropout_, is_training());
  return token_output(computed, head_(read), inputs);
}

QuestionAnswering::QuestionAnswering(BelowHead below, double dropout, const std::string& head)
    : TextModelWithHead(std::move(below)), dropout_(dropout), qa_outputs_(base().hidden_size(), 2) {
  register_module(head, qa_outputs_);
  post_init();
}

ModelOutput QuestionAnswering::output_of(const TextInputs& inputs) {
  // The loss is a softmax over the tokens of a row, padding included.
  const auto computed = base().compute(inputs, {.all_tokens = inputs.start_positions.defined()});
  const at::Tensor read = dropout_of(transformed(computed.hidden), dropout_, is_training());
  const at::Tensor logits = computed.tokens.restore(qa_outputs_(read));
  ModelOutput output = computed.output();
  output.start_logits = logits.select(-1, 0).contiguous();
  output.end_logits = logits.select(-1, 1).contiguous();
  if (inputs.start_positions.defined() && inputs.end_positions.defined()) {
    output.loss = question_answering_loss(output.start_logits, output.end_logits,
                                          inputs.start_positions, inputs.end_positions);
  }
  return output;
}

void check_two_labels(const PretrainedConfig& config) {
  if (config.num_labels() == 2) return;
  throw ConfigError(
      config.name() + ": there are " + std::to_string(config.num_labels()) +
      " labels; question answering has two, where the answer starts and where it ends");
}

// --- Of encoders ---

at::Tensor FirstTokenHead::loss_of(const at::Tensor& logits, const TextInputs& inputs) const {
  return classification_loss(logits, inputs, config());
}

ModelOutput FirstTokenHead::output_of(const TextInputs& inputs) {
  // Hidden states and attentions, if asked for, are those of all tokens.
  const HeadNeeds needs{.first_token = reads_first_token(),
                        .first_alone = reads_first_token() && !inputs.output_hidden_states &&
                                       !inputs.output_attentions};
  if (task_ != Task::multiple_choice) {
    const auto computed = base().compute(inputs, needs);
    ModelOutput output = computed.output();
    output.logits = scores_of(pooled(computed, inputs));
    if (inputs.labels.defined()) output.loss = loss_of(output.logits, inputs);
    return output;
  }
  const TextInputs rows = choices_as_rows(inputs);
  const auto computed = base().compute(rows, needs);
  const at::Tensor scores = scores_of(pooled(computed, rows));
  ModelOutput output = computed.output();
  output.logits = scores.view({-1, inputs.input_ids.size(1)});
  if (inputs.labels.defined())
    output.loss = cross_entropy(output.logits, inputs.labels, inputs.num_items_in_batch);
  return output;
}

MaskedLM::MaskedLM(BelowHead below, Activation activation, double epsilon)
    : TextModelWithHead(std::move(below)),
      dense(base().hidden_size(), base().embedding_size()),
      decoder(base().embedding_size(), base().vocab_size()),
      norm(torch::nn::LayerNormOptions({base().embedding_size()}).eps(epsilon)),
      activation_(activation) {}

MaskedLM::MaskedLM(BelowHead below, bool has_bias)
    : TextModelWithHead(std::move(below)),
      decoder(base().embedding_size(), base().vocab_size(), has_bias) {}

at::Tensor MaskedLM::scores_of(const at::Tensor& hidden) {
  return decoder(dense.is_empty() ? transformed(hidden) : norm(activation_(dense(hidden))));
}

void MaskedLM::register_bias(torch::nn::Module& parent) {
  bias_ = parent.register_parameter("bias", at::zeros({base().vocab_size()}));
}

void MaskedLM::tie_weights() {
  if (!base().ties_embeddings()) return;
  if (bias_.defined()) decoder->tie_bias(bias_);
  decoder->tie_weight(input_embeddings()->weight);
}

ModelOutput MaskedLM::output_of(const TextInputs& inputs) {
  const auto computed = base().compute(inputs, {.token_labels = inputs.labels});
  return token_output(computed, scores_of(computed.hidden), inputs, has_loss_in_fp32());
}

// --- Of decoders ---

CausalLM::CausalLM(BelowHead below, const DecoderModel& decoder)
    : TextModelWithHead(std::move(below)),
      max_positions_(decoder.max_positions()),
      longest_short_text_(decoder.longest_short_text()),
      logits_scaling_(decoder.logits_scaling()),
      logits_softcap_(decoder.logits_softcap()),
      lm_head_(base().hidden_size(), base().vocab_size(), /*has_bias=*/false) {
  register_module("lm_head", lm_head_);
  post_init();
}

ParallelPlan CausalLM::parallel_plan() const {
  ParallelPlan plan = TextModelWithHead::parallel_plan();
  plan.tensor_parallel.push_back({"lm_head", ParallelPlan::Cut::colwise_gather_output});
  return plan;
}

void CausalLM::tie_weights() {
  if (base().ties_embeddings()) lm_head_->tie_weight(input_embeddings()->weight);
}

ModelOutput CausalLM::output_of(const TextInputs& inputs) {
  // The label of a token is what the token before it must predict.
  at::Tensor labels;
  if (inputs.labels.defined()) {
    check_labels_of_tokens(inputs);
    if (inputs.logits_to_keep != 0)
      throw UsageError("a loss needs the logits of all tokens: leave out logits_to_keep");
    labels = at::constant_pad_nd(inputs.labels, {0, 1}, kIgnoredLabel)
                 .narrow(1, 1, inputs.labels.size(1));
  }
  const auto computed = base().compute(
      inputs, {.all_tokens = ends_with_padding(inputs.attention_mask, inputs.logits_to_keep),
               .token_labels = labels});
  at::Tensor hidden = computed.hidden;
  if (inputs.logits_to_keep > 0) {
    hidden = computed.tokens.restore(hidden);
    const std::int64_t kept = std::min(inputs.logits_to_keep, hidden.size(1));
    hidden = hidden.narrow(1, hidden.size(1) - kept, kept);
  }
  at::Tensor logits = lm_head_(hidden);
  if (logits_scaling_ != 1) logits = logits / logits_scaling_;
  if (logits_softcap_) logits = (logits / *logits_softcap_).tanh() * *logits_softcap_;
  ModelOutput output = computed.output();
  if (labels.defined()) {
    output.loss =
        cross_entropy(logits.flatten(0, -2).to(at::kFloat),
                      computed.tokens.take(labels).reshape({-1}), inputs.num_items_in_batch);
  }
  output.logits = inputs.logits_to_keep > 0 ? logits : computed.tokens.restore(logits);
  return output;
}

LastTokenClassification::LastTokenClassification(BelowHead below)
    : TextModelWithHead(std::move(below)),
      score_(base().hidden_size(), config().num_labels(), /*has_bias=*/false) {
  register_module("score", score_);
  post_init();
}

ModelOutput LastTokenClassification::output_of(const TextInputs& inputs) {
  check_input_ids(inputs.input_ids);
  const auto padding = config().get<std::int64_t>("pad_token_id");
  const std::int64_t rows = inputs.input_ids.size(0), length = inputs.input_ids.size(1);
  if (!padding && rows != 1) {
    throw UsageError(
        "the configuration has no pad_token_id, by which the last token of each row is "
        "found; set it, or give one row at a time");
  }
  at::Tensor last = at::arange(length, inputs.input_ids.options());
  last =
      padding ? (last * inputs.input_ids.ne(*padding)).argmax(-1) : last.narrow(0, length - 1, 1);
  // The token that is read must have been computed.
  const bool reads_padding =
      inputs.attention_mask.defined() && inputs.attention_mask.dim() == 2 &&
      inputs.attention_mask.gather(1, last.unsqueeze(1).to(inputs.attention_mask.device()))
          .eq(0)
          .any()
          .item<bool>();
  const auto computed = base().compute(inputs, {.all_tokens = reads_padding});
  const at::Tensor hidden = computed.tokens.restore(computed.hidden);
  const at::Tensor row = at::arange(rows, last.options());
  ModelOutput output = computed.output();
  output.logits = score_(hidden.flatten(0, 1).index_select(0, row * length + last));
  if (inputs.labels.defined()) output.loss = classification_loss(output.logits, inputs, config());
  return output;
}

namespace {

double dropout_of_head(const PretrainedConfig& config) {
  constexpr double kUsual = 0.1;
  for (const char* key : {"classifier_dropout", "hidden_dropout"})
    if (config.json_of(key) != "null") return value_in(config, key, limits::kShare);
  return kUsual;
}

}  // namespace

std::map<Task, MakeModel> decoder_classes(
    const DecoderNames& names,
    const std::function<std::shared_ptr<DecoderModel>(const PretrainedConfig&)>& make) {
  using enum Task;
  const auto below = [=](const std::string& head, const PretrainedConfig& config) -> BelowHead {
    return {names.prefix + head, make(config), names.base};
  };
  return {{Task::base, make},
          {causal_lm,
           [=](const PretrainedConfig& config) {
             const auto decoder = make(config);
             return std::make_shared<CausalLM>(
                 BelowHead{names.prefix + names.causal_lm, decoder, names.base}, *decoder);
           }},
          {sequence_classification,
           [=](const PretrainedConfig& config) {
             return std::make_shared<LastTokenClassification>(
                 below("ForSequenceClassification", config));
           }},
          {token_classification,
           [=](const PretrainedConfig& config) {
             return std::make_shared<TokenClassification>(below("ForTokenClassification", config),
                                                          names.head_of_tokens,
                                                          dropout_of_head(config));
           }},
          {question_answering, [=](const PretrainedConfig& config) {
             return std::make_shared<QuestionAnswering>(
                 BelowHead{names.prefix + "ForQuestionAnswering", make(config),
                           names.base_of_question_answering});
           }}};
}

}  // namespace accelerate::detail
