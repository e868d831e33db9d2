#include "accelerate/transformers/models/architectures/causal_decoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/config/limits.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/losses.h"

namespace accelerate {
namespace {

// Whether one of the last `count` tokens of a row is padding.
bool ends_with_padding(const at::Tensor& mask, std::int64_t count) {
  return mask.defined() && mask.dim() == 2 && count > 0 &&
         mask.narrow(1, std::max<std::int64_t>(0, mask.size(1) - count),
                     std::min(count, mask.size(1)))
             .eq(0)
             .any()
             .item<bool>();
}

double dropout_of_head(const PretrainedConfig& config) {
  constexpr double kUsual = 0.1;
  for (const char* key : {"classifier_dropout", "hidden_dropout"})
    if (config.json_of(key) != "null") return detail::value_in(config, key, detail::limits::kShare);
  return kUsual;
}

}  // namespace

// --- Without a head ---

detail::Computed DecoderModel::begin(const TextInputs& inputs,
                                     const detail::HeadNeeds& needs) const {
  TextInputs given = inputs;
  if (inputs.use_cache && inputs.past_key_values == nullptr)
    given.past_key_values = std::make_shared<KeyValueCache>();
  detail::Computed computed{
      .tokens = detail::tokens_of(given, needs, {drops_padding(), detail::SequenceRule::jumps})};
  computed.past_key_values = given.past_key_values;
  return computed;
}

ModelOutput DecoderModel::forward(const TextInputs& inputs) {
  const auto computed = compute(inputs, {});
  ModelOutput output = computed.output();
  output.last_hidden_state = computed.tokens.restore(computed.hidden);
  return output;
}

// --- Heads ---

DecoderWithHead::DecoderWithHead(const std::string& name, const PretrainedConfig& config,
                                 std::shared_ptr<DecoderModel> decoder, const std::string& prefix)
    : TextModel(name, config, prefix), decoder_(register_module(prefix, std::move(decoder))) {}

DecoderForCausalLM::DecoderForCausalLM(const std::string& name, const PretrainedConfig& config,
                                       std::shared_ptr<DecoderModel> decoder,
                                       const std::string& prefix, bool ties_embeddings)
    : DecoderWithHead(name, config, std::move(decoder), prefix),
      lm_head(this->decoder().hidden_size(), this->decoder().vocab_size(), /*has_bias=*/false),
      ties_embeddings_(ties_embeddings) {
  register_module("lm_head", lm_head);
  post_init();
}

ParallelPlan DecoderForCausalLM::parallel_plan() const {
  ParallelPlan plan = DecoderWithHead::parallel_plan();
  plan.tensor_parallel.push_back({"lm_head", ParallelPlan::Cut::colwise_gather_output});
  return plan;
}

void DecoderForCausalLM::tie_weights() {
  if (ties_embeddings_) lm_head->tie_weight(input_embeddings()->weight);
}

ModelOutput DecoderForCausalLM::forward(const TextInputs& inputs) {
  // The label of a token is what the token before it must predict.
  at::Tensor labels;
  if (inputs.labels.defined()) {
    if (inputs.labels.sizes() != inputs.input_ids.sizes())
      throw UsageError("labels of tokens have the shape of input_ids, one number a token");
    if (inputs.logits_to_keep != 0)
      throw UsageError("a loss needs the logits of all tokens: leave out logits_to_keep");
    labels = at::constant_pad_nd(inputs.labels, {0, 1}, detail::kIgnoredLabel)
                 .narrow(1, 1, inputs.labels.size(1));
  }
  const auto computed = decoder().compute(
      inputs, {.all_tokens = ends_with_padding(inputs.attention_mask, inputs.logits_to_keep),
               .token_labels = labels});
  at::Tensor hidden = computed.hidden;
  if (inputs.logits_to_keep > 0) {
    hidden = computed.tokens.restore(hidden);
    const std::int64_t kept = std::min(inputs.logits_to_keep, hidden.size(1));
    hidden = hidden.narrow(1, hidden.size(1) - kept, kept);
  }
  const at::Tensor logits = lm_head(hidden);
  ModelOutput output = computed.output();
  if (labels.defined()) {
    output.loss = detail::cross_entropy(logits.flatten(0, -2).to(at::kFloat),
                                        computed.tokens.take(labels).reshape({-1}),
                                        inputs.num_items_in_batch);
  }
  output.logits = inputs.logits_to_keep > 0 ? logits : computed.tokens.restore(logits);
  return output;
}

DecoderForSequenceClassification::DecoderForSequenceClassification(
    const std::string& name, const PretrainedConfig& config, std::shared_ptr<DecoderModel> decoder,
    const std::string& prefix)
    : DecoderWithHead(name, config, std::move(decoder), prefix),
      score(this->decoder().hidden_size(), config.num_labels(), /*has_bias=*/false) {
  register_module("score", score);
  post_init();
}

ModelOutput DecoderForSequenceClassification::forward(const TextInputs& inputs) {
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
  const auto computed = decoder().compute(inputs, {.all_tokens = reads_padding});
  const at::Tensor hidden = computed.tokens.restore(computed.hidden);
  const at::Tensor row = at::arange(rows, last.options());
  const at::Tensor logits = score(hidden.flatten(0, 1).index_select(0, row * length + last));
  return detail::row_output(computed, logits, inputs, config());
}

DecoderForTokenClassification::DecoderForTokenClassification(const std::string& name,
                                                             const PretrainedConfig& config,
                                                             std::shared_ptr<DecoderModel> decoder,
                                                             const std::string& prefix,
                                                             const std::string& head_name)
    : DecoderWithHead(name, config, std::move(decoder), prefix),
      head(this->decoder().hidden_size(), config.num_labels()),
      dropout_(dropout_of_head(config)) {
  register_module(head_name, head);
  post_init();
}

ModelOutput DecoderForTokenClassification::forward(const TextInputs& inputs) {
  const auto computed = decoder().compute(inputs, {.token_labels = inputs.labels});
  const at::Tensor hidden = detail::dropout_of(computed.hidden, dropout_, is_training());
  return detail::token_output(computed, head(hidden), inputs);
}

DecoderForQuestionAnswering::DecoderForQuestionAnswering(const std::string& name,
                                                         const PretrainedConfig& config,
                                                         std::shared_ptr<DecoderModel> decoder,
                                                         const std::string& prefix)
    : DecoderWithHead(name, config, std::move(decoder), prefix),
      qa_outputs(this->decoder().hidden_size(), 2) {
  register_module("qa_outputs", qa_outputs);
  post_init();
}

ModelOutput DecoderForQuestionAnswering::forward(const TextInputs& inputs) {
  const auto computed = decoder().compute(inputs, {.all_tokens = inputs.start_positions.defined()});
  return detail::span_output(computed, qa_outputs(computed.hidden), inputs);
}

}  // namespace accelerate
