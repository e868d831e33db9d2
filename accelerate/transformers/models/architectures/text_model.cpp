#include "accelerate/transformers/models/architectures/text_model.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/lost_pages.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/models/layers/key_value_cache.h"
#include "accelerate/transformers/models/losses.h"

namespace accelerate {
namespace {

using detail::kNoPosition;
using detail::RowPositions;
using detail::SequenceBegins;
using detail::SequenceRule;

using Field = at::Tensor TextInputs::*;

constexpr std::array<std::pair<std::string_view, Field>, 9> kFields{{
    {"input_ids", &TextInputs::input_ids},
    {"attention_mask", &TextInputs::attention_mask},
    {"token_type_ids", &TextInputs::token_type_ids},
    {"position_ids", &TextInputs::position_ids},
    {"labels", &TextInputs::labels},
    {"start_positions", &TextInputs::start_positions},
    {"end_positions", &TextInputs::end_positions},
    {"num_items_in_batch", &TextInputs::num_items_in_batch},
    {"cu_seq_lens_q", &TextInputs::cu_seq_lens_q},
}};

// Tensors of a flattened batch that are not read, as position_ids or cu_seq_lens_q say the same.
constexpr std::array<std::string_view, 4> kSaidTwice{"cu_seq_lens_k", "max_length_q",
                                                     "max_length_k", "seq_idx"};

void check_ids_shape(const at::Tensor& ids) {
  if (ids.dim() == 2 && ids.size(0) > 0 && ids.size(1) > 0) return;
  throw UsageError("input_ids have " + std::to_string(ids.dim()) +
                   " dimensions; allowed are two, rows and tokens, with one or more of each");
}

// Returns where the sequences of a flattened batch begin, and its end.
std::vector<std::int64_t> sequence_bounds(const TextInputs& inputs) {
  const at::Tensor given = inputs.cu_seq_lens_q.to(at::kCPU, at::kLong).contiguous();
  const auto* begin = given.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> bounds(begin, begin + given.numel());
  const bool rises = std::ranges::is_sorted(bounds);
  if (inputs.input_ids.size(0) == 1 && bounds.size() > 1 && rises && bounds.front() == 0 &&
      bounds.back() == inputs.input_ids.size(1))
    return bounds;
  throw UsageError(
      "cu_seq_lens_q does not divide input_ids: it begins with 0, rises and ends with the "
      "number of tokens, of which there is one row");
}

// Adds what cu_seq_lens_q says about the tokens behind `past` ones.
void add_bounds(const TextInputs& inputs, std::int64_t past, SequenceBegins& begins) {
  std::set<std::int64_t> all;
  if (!begins.empty()) all.insert(begins[0].begin(), begins[0].end());
  for (const std::int64_t bound : sequence_bounds(inputs)) {
    if (past + bound > 0 && bound < inputs.input_ids.size(1)) all.insert(past + bound);
  }
  if (!all.empty()) begins = {{all.begin(), all.end()}};
}

// The positions of the call's tokens, as far as they tell sequences apart.
at::Tensor telling_positions(const TextInputs& inputs) {
  const at::Tensor& mask = inputs.attention_mask;
  if (mask.defined() && mask.dim() != 2) return {};  // Says all by itself.
  const bool is_told = inputs.position_ids.defined() || !inputs.cu_seq_lens_q.defined();
  return is_told ? inputs.position_ids : detail::default_positions(inputs);
}

// Returns where sequences begin, tokens in the cache included, and has the cache remember the
// positions of the call's tokens.
SequenceBegins begins_of(const TextInputs& inputs, SequenceRule rule) {
  const std::int64_t rows = inputs.input_ids.size(0), length = inputs.input_ids.size(1);
  KeyValueCache* cache = inputs.past_key_values.get();
  const at::Tensor& mask = inputs.attention_mask;
  const at::Tensor given = telling_positions(inputs);
  RowPositions positions = cache == nullptr ? RowPositions() : cache->positions();
  if (!given.defined() && positions.empty()) return {};
  const std::int64_t past = cache == nullptr ? 0 : cache->length();
  positions.resize(static_cast<std::size_t>(rows),
                   std::vector<std::int64_t>(static_cast<std::size_t>(past), kNoPosition));
  const bool has_padding = mask.defined() && mask.sizes() == at::IntArrayRef({rows, past + length});
  detail::append_positions(positions, length, given,
                           has_padding ? mask.narrow(1, past, length) : at::Tensor());
  SequenceBegins begins = detail::sequences_in(positions, rule);
  if (inputs.cu_seq_lens_q.defined()) add_bounds(inputs, past, begins);
  if (cache != nullptr) cache->set_positions(std::move(positions));
  return begins;
}

// As in Python, a label at padding counts.
bool has_label_at_padding(const TextInputs& inputs, const at::Tensor& labels) {
  const at::Tensor& mask = inputs.attention_mask;
  if (!labels.defined() || !mask.defined()) return false;
  if (mask.sizes() != labels.sizes()) return true;
  return mask.eq(0)
      .logical_and(labels.to(mask.device()).ne(detail::kIgnoredLabel))
      .any()
      .item<bool>();
}

}  // namespace

std::vector<std::string> TextInputs::names() {
  std::vector<std::string> names;
  for (const auto& [name, field] : kFields) names.emplace_back(name);
  return names;
}

TextInputs TextInputs::of(const Inputs& inputs) {
  TextInputs found;
  for (const auto& [name, tensor] : inputs) {
    const auto field = std::ranges::find(kFields, name, &std::pair<std::string_view, Field>::first);
    if (std::ranges::find(kSaidTwice, name) != kSaidTwice.end()) continue;
    if (field == kFields.end()) {
      throw UsageError("the model was given '" + name + "'; it takes " + join(names(), ", ") +
                       ". Leave the column out by remove_columns or set_format");
    }
    found.*field->second = tensor;
  }
  if (!found.input_ids.defined()) throw UsageError("the model was given no input_ids");
  return found;
}

namespace detail {

ModelOutput Computed::output() const {
  check_for_lost_pages();  // Checks the files of mapped weights.
  ModelOutput output;
  for (const at::Tensor& states : hidden_states)
    output.hidden_states.push_back(tokens.restore(states));
  output.attentions = attentions;
  output.past_key_values = past_key_values;
  return output;
}

Tokens tokens_of(const TextInputs& inputs, const HeadNeeds& needs, const PackingRules& rules) {
  const at::Tensor& ids = inputs.input_ids;
  check_ids_shape(ids);
  const bool packs = rules.packs && !inputs.output_attentions && inputs.past_key_values == nullptr;
  return {ids.size(0),
          ids.size(1),
          inputs.attention_mask,
          {.past = inputs.past_key_values == nullptr ? 0 : inputs.past_key_values->length(),
           .packs = packs,
           .drops_padding = !needs.all_tokens && !has_label_at_padding(inputs, needs.token_labels),
           .needs_first_column = needs.first_token,
           .begins = begins_of(inputs, rules.sequences),
           .device = ids.device()}};
}

at::Tensor default_positions(const TextInputs& inputs, std::int64_t past) {
  const auto& ids = inputs.input_ids;
  if (!inputs.cu_seq_lens_q.defined())
    return at::arange(past, past + ids.size(1), ids.options()).unsqueeze(0);
  std::vector<at::Tensor> rows;
  const auto bounds = sequence_bounds(inputs);
  for (std::size_t i = 1; i < bounds.size(); ++i)
    rows.push_back(at::arange(bounds[i] - bounds[i - 1], ids.options()));
  return at::cat(rows).unsqueeze(0);
}

at::Tensor take_positions(const at::Tensor& positions, const TextInputs& inputs,
                          const Tokens& tokens) {
  return tokens.is_packed() ? tokens.take(positions.expand_as(inputs.input_ids)) : positions;
}

void check_ids(const at::Tensor& ids, std::int64_t count, std::string_view what) {
  if (!ids.device().is_cpu()) return;
  const at::Tensor whole = ids.to(at::kLong).contiguous();
  const auto* begin = whole.const_data_ptr<std::int64_t>();
  for (const auto* id = begin; id != begin + whole.numel(); ++id) {
    if (*id >= 0 && *id < count) continue;
    throw UsageError(std::string(what) + " has " + std::to_string(*id) + "; allowed are 0 to " +
                     std::to_string(count - 1));
  }
}

void check_positions(const at::Tensor& positions, std::int64_t count, const TextInputs& inputs) {
  if (inputs.position_ids.defined()) {
    check_ids(positions, count, "position_ids");
  } else if (positions.max().item<std::int64_t>() >= count) {
    throw UsageError("a row has " + std::to_string(inputs.input_ids.size(1)) +
                     " tokens, more than the model has positions for: there are " +
                     std::to_string(count) + ". Cut texts by .truncation = true");
  }
}

void check_is_encoding(const TextInputs& inputs, const std::string& who) {
  if (inputs.past_key_values != nullptr || inputs.use_cache || inputs.logits_to_keep != 0)
    throw UsageError(who +
                     " reads all tokens at once: it takes no past_key_values, use_cache and "
                     "logits_to_keep");
}

void check_two_labels(const PretrainedConfig& config) {
  if (config.num_labels() == 2) return;
  throw ConfigError(
      config.name() + ": there are " + std::to_string(config.num_labels()) +
      " labels; question answering has two, where the answer starts and where it ends");
}

ModelOutput row_output(const Computed& computed, at::Tensor logits, const TextInputs& inputs,
                       const PretrainedConfig& config) {
  ModelOutput output = computed.output();
  if (inputs.labels.defined()) {
    output.loss = sequence_classification_loss(logits, inputs.labels,
                                               config.get<std::string>("problem_type", ""),
                                               inputs.num_items_in_batch);
  }
  output.logits = std::move(logits);
  return output;
}

ModelOutput token_output(const Computed& computed, const at::Tensor& logits,
                         const TextInputs& inputs) {
  ModelOutput output = computed.output();
  if (inputs.labels.defined()) {
    if (inputs.labels.sizes() != inputs.input_ids.sizes())
      throw UsageError("labels of tokens have the shape of input_ids, one number a token");
    output.loss =
        cross_entropy(logits.flatten(0, -2), computed.tokens.take(inputs.labels).reshape({-1}),
                      inputs.num_items_in_batch);
  }
  output.logits = computed.tokens.restore(logits);
  return output;
}

ModelOutput span_output(const Computed& computed, const at::Tensor& logits,
                        const TextInputs& inputs) {
  ModelOutput output = computed.output();
  const at::Tensor restored = computed.tokens.restore(logits);
  output.start_logits = restored.select(-1, 0).contiguous();
  output.end_logits = restored.select(-1, 1).contiguous();
  if (inputs.start_positions.defined() && inputs.end_positions.defined()) {
    output.loss = question_answering_loss(output.start_logits, output.end_logits,
                                          inputs.start_positions, inputs.end_positions);
  }
  return output;
}

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

ModelOutput choice_output(const Computed& computed, const at::Tensor& logits, std::int64_t choices,
                          const TextInputs& inputs) {
  ModelOutput output = computed.output();
  output.logits = logits.view({-1, choices});
  if (inputs.labels.defined())
    output.loss = cross_entropy(output.logits, inputs.labels, inputs.num_items_in_batch);
  return output;
}

}  // namespace detail

at::Tensor TextModel::run_block(const torch::nn::Module& block, const detail::Computed& computed,
                                const TextInputs& inputs,
                                const std::function<at::Tensor(const at::Tensor&)>& forward) const {
  const bool keeps = inputs.output_attentions || computed.past_key_values != nullptr;
  return keeps ? forward(computed.hidden) : run_layer(block, computed.hidden, forward);
}

}  // namespace accelerate
