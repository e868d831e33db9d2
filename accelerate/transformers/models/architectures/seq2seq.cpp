#include "accelerate/transformers/models/architectures/seq2seq.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/base/lost_pages.h"
#include "accelerate/transformers/models/losses.h"

namespace accelerate::detail {
namespace {

std::string outline_of(const at::Tensor& tensor) {
  return c10::str(tensor.sizes()) + " of type " + c10::toString(tensor.scalar_type());
}

// width: the numbers of a token.
void check_text(const TextInputs& inputs, std::int64_t width) {
  if (inputs.attention_mask.defined() && inputs.attention_mask.dim() != 2)
    throw UsageError("the attention mask of an encoder has " +
                     std::to_string(inputs.attention_mask.dim()) +
                     " dimensions; allowed are two, rows and tokens");
  const at::Tensor& outputs = inputs.encoder_outputs;
  if (outputs.defined() && (outputs.dim() != 3 || outputs.numel() == 0 ||
                            outputs.size(2) != width || !outputs.is_floating_point()))
    throw UsageError("encoder_outputs are " + outline_of(outputs) +
                     "; allowed are floating-point numbers, {rows, tokens, " +
                     std::to_string(width) + "}, with one row and token or more");
  if (!outputs.defined() && inputs.input_ids.defined()) check_input_ids(inputs.input_ids);
}

void check_token_labels(const at::Tensor& labels) {
  const bool is_whole = labels.scalar_type() == at::kLong || labels.scalar_type() == at::kInt;
  if (is_whole && labels.dim() == 2 && labels.numel() > 0) return;
  throw UsageError("labels are " + outline_of(labels) +
                   "; allowed are int64 or int32, {rows, tokens}, with one or more of each");
}

using ScoresOf = std::function<at::Tensor(const at::Tensor&)>;

struct LossAndScores {
  at::Tensor loss, scores;  // {} and {N, V}
};

// Whether so many tokens have no label that computing their scores apart saves time: backward of the loss
// then leaves them out.
bool leaves_out(const at::Tensor& hidden, std::int64_t labelled) {
  constexpr std::int64_t kPart = 8;
  const std::int64_t tokens = hidden.size(0);
  return at::GradMode::is_enabled() && labelled > 0 && (tokens - labelled) * kPart >= tokens;
}

// hidden: {N, H}; labels: {N}.
LossAndScores loss_and_scores(const at::Tensor& hidden, const at::Tensor& labels,
                              const at::Tensor& num_items, const ScoresOf& scores_of) {
  const auto whole = [&]() -> LossAndScores {
    const at::Tensor scores = scores_of(hidden);
    return {cross_entropy(scores, labels, num_items), scores};
  };
  if (!labels.device().is_cpu() || !hidden.device().is_cpu())
    return whole();  // To count is to wait.
  const at::Tensor has_label = labels.ne(kIgnoredLabel);
  const at::Tensor with = has_label.nonzero().squeeze(1);
  if (!leaves_out(hidden, with.numel())) return whole();
  const at::Tensor without = has_label.logical_not().nonzero().squeeze(1);
  const at::Tensor read = scores_of(hidden.index_select(0, with));
  const at::Tensor loss = cross_entropy(read, labels.index_select(0, with), num_items);
  const at::Tensor scores = at::empty({hidden.size(0), read.size(1)}, read.options());
  scores.index_copy_(0, without, scores_of(hidden.index_select(0, without)));
  scores.index_copy_(0, with, read);
  return {loss, scores};
}

std::vector<at::Tensor> restored(const Computed& computed) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& states : computed.hidden_states)
    all.push_back(computed.tokens.restore(states));
  return all;
}

}  // namespace

void EncodedText::check_type(const at::Tensor& of_decoder) const {
  if (!is_given || hidden.scalar_type() == of_decoder.scalar_type() ||
      at::autocast::is_autocast_enabled(of_decoder.device().type()))
    return;
  throw UsageError("encoder_outputs are " + outline_of(hidden) + "; allowed is the model's type, " +
                   c10::toString(of_decoder.scalar_type()));
}

ModelOutput Seq2SeqModel::Sides::output() const {
  check_for_lost_pages();  // Checks the files of mapped weights.
  ModelOutput output;
  output.encoder_last_hidden_state = encoder_outputs;
  output.encoder_hidden_states = restored(encoder);
  output.decoder_hidden_states = restored(decoder);
  output.encoder_attentions = encoder.attentions;
  output.decoder_attentions = decoder.attentions;
  output.cross_attentions = cross_attentions;
  output.past_key_values = decoder.past_key_values;
  return output;
}

std::vector<std::string> Seq2SeqModel::input_names() const {
  return {"input_ids",       "attention_mask", "decoder_input_ids", "decoder_attention_mask",
          "encoder_outputs", "labels",         "num_items_in_batch"};
}

at::Tensor Seq2SeqModel::prepare_decoder_input_ids_from_labels(const at::Tensor& labels) const {
  check_token_labels(labels);
  return shifted_right(labels);
}

at::Tensor Seq2SeqModel::shifted_right(const at::Tensor& ids) const {
  const auto id_of = [&](const char* key, std::optional<std::int64_t> otherwise) {
    const auto id = config().contains(key) ? config().get<std::int64_t>(key) : otherwise;
    if (!id) config().refuse(key, "the id of a token, as the decoder reads labels behind it");
    return *id;
  };
  const DecoderTokens usual = usual_tokens();
  const auto start = id_of("decoder_start_token_id", usual.start);
  const auto padding = id_of("pad_token_id", usual.padding);
  const at::Tensor first = at::full({ids.size(0), 1}, start, ids.options());
  const at::Tensor shifted = at::cat({first, ids.narrow(1, 0, ids.size(1) - 1)}, 1);
  return shifted.masked_fill(shifted.eq(kIgnoredLabel), padding);
}

at::Tensor Seq2SeqModel::decoder_ids_of(const TextInputs& inputs) const {
  if (!inputs.labels.defined())
    throw UsageError(name() + " was given neither decoder_input_ids nor labels to make them of");
  return prepare_decoder_input_ids_from_labels(inputs.labels);
}

at::Tensor Seq2SeqModel::encode(const TextInputs& inputs) {
  check_text(inputs, hidden_size());
  const Computed computed = encoder().compute(
      {.input_ids = inputs.input_ids, .attention_mask = inputs.attention_mask}, {});
  return computed.tokens.restore(computed.hidden);
}

// Computes the encoder's side, unless it is known.
EncodedText Seq2SeqModel::encoded(Sides& sides, const TextInputs& inputs) {
  KeyValueCache* cache = sides.decoder.past_key_values.get();
  const auto tokens_of_text = [&](std::int64_t length, c10::Device device) {
    const bool packs = drops_padding() && !inputs.output_attentions && cache == nullptr;
    return Tokens(sides.decoder.tokens.rows(), length, inputs.attention_mask,
                  {.packs = packs, .device = device});
  };
  AttentionSpec spec{.kind = attention_kind(),
                     .weights = inputs.output_attentions ? &sides.cross_attentions : nullptr,
                     .cache = cache};
  if (cache != nullptr && cache->read_length() > 0)
    return {tokens_of_text(cache->read_length(), inputs.decoder_input_ids.device()), {}, spec};
  if (!inputs.encoder_outputs.defined()) {
    sides.encoder = encoder().compute({.input_ids = inputs.input_ids,
                                       .attention_mask = inputs.attention_mask,
                                       .output_hidden_states = inputs.output_hidden_states,
                                       .output_attentions = inputs.output_attentions},
                                      {});
    sides.encoder_outputs = sides.encoder.tokens.restore(sides.encoder.hidden);
    if (cache == nullptr) return {sides.encoder.tokens, sides.encoder.hidden, spec};
  } else {
    sides.encoder_outputs = inputs.encoder_outputs;
  }
  const Tokens tokens =
      tokens_of_text(sides.encoder_outputs.size(1), sides.encoder_outputs.device());
  return {tokens, tokens.take(sides.encoder_outputs), spec, inputs.encoder_outputs.defined()};
}

Seq2SeqModel::Sides Seq2SeqModel::run(const TextInputs& inputs, const HeadNeeds& needs) {
  check_text(inputs, hidden_size());
  TextInputs given = inputs;
  if (!given.decoder_input_ids.defined()) given.decoder_input_ids = decoder_ids_of(inputs);
  if (inputs.use_cache && inputs.past_key_values == nullptr)
    given.past_key_values = std::make_shared<KeyValueCache>();
  const TextInputs of_decoder{.input_ids = given.decoder_input_ids,
                              .attention_mask = given.decoder_attention_mask,
                              .past_key_values = given.past_key_values,
                              .output_hidden_states = given.output_hidden_states,
                              .output_attentions = given.output_attentions};
  const at::Tensor& text =
      inputs.encoder_outputs.defined() ? inputs.encoder_outputs : inputs.input_ids;
  const bool is_read = given.past_key_values != nullptr && given.past_key_values->read_length() > 0;
  Computed decoder{.tokens = tokens_of(of_decoder, needs, SequenceRule::jumps)};
  decoder.past_key_values = given.past_key_values;
  if (!is_read && (!text.defined() || text.size(0) != decoder.tokens.rows()))
    throw UsageError("the decoder has " + std::to_string(decoder.tokens.rows()) +
                     " rows, and the encoder " +
                     (text.defined() ? std::to_string(text.size(0)) : "no input_ids"));
  Sides sides{.encoder = Computed{.tokens = decoder.tokens}, .decoder = std::move(decoder)};
  const EncodedText read = encoded(sides, given);
  decode(sides.decoder, of_decoder, read);
  return sides;
}

ModelOutput Seq2SeqModel::output_of(const TextInputs& inputs) {
  const Sides sides = run(inputs, {});
  ModelOutput output = sides.output();
  output.last_hidden_state = sides.decoder.tokens.restore(sides.decoder.hidden);
  return output;
}

ModelOutput Seq2SeqLM::lm_output(const TextInputs& inputs,
                                 const std::function<at::Tensor(const at::Tensor&)>& scores_of) {
  if (inputs.labels.defined() && inputs.logits_to_keep != 0)
    throw UsageError("a loss needs the logits of all tokens: leave out logits_to_keep");
  if (inputs.labels.defined()) check_token_labels(inputs.labels);
  const auto computed = sides().run(
      inputs, {.all_tokens = inputs.logits_to_keep != 0, .token_labels = inputs.labels});
  const Tokens& tokens = computed.decoder.tokens;
  ModelOutput output = computed.output();
  if (inputs.logits_to_keep > 0) {
    const at::Tensor hidden = tokens.restore(computed.decoder.hidden);
    const std::int64_t kept = std::min(inputs.logits_to_keep, hidden.size(1));
    output.logits = scores_of(hidden.narrow(1, hidden.size(1) - kept, kept));
    return output;
  }
  const at::Tensor& hidden = computed.decoder.hidden;
  if (!inputs.labels.defined()) {
    output.logits = tokens.restore(scores_of(hidden));
    return output;
  }
  if (inputs.labels.size(0) != tokens.rows() || inputs.labels.size(1) != tokens.length())
    throw UsageError("labels have another shape than decoder_input_ids: one number a token");
  const at::Tensor labels = tokens.take(inputs.labels).to(at::kLong).reshape({-1});
  const LossAndScores found =
      loss_and_scores(hidden.flatten(0, -2), labels, inputs.num_items_in_batch, scores_of);
  std::vector<std::int64_t> shape = hidden.sizes().vec();
  shape.back() = found.scores.size(-1);
  output.loss = found.loss;
  output.logits = tokens.restore(found.scores.view(shape));
  return output;
}

}  // namespace accelerate::detail
