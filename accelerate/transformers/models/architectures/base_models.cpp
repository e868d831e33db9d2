#include "accelerate/transformers/models/architectures/base_models.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/lost_pages.h"
#include "accelerate/transformers/models/layers/sequences.h"
#include "accelerate/transformers/models/losses.h"

namespace accelerate::detail {
namespace {

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
  if (inputs.cu_seq_lens_q.defined()) return positions_of(inputs);
  return inputs.position_ids_tell_sequences ? inputs.position_ids : at::Tensor();
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
  append_positions(positions, length, given,
                   has_padding ? mask.narrow(1, past, length) : at::Tensor());
  SequenceBegins begins = sequences_in(positions, rule);
  if (inputs.cu_seq_lens_q.defined()) add_bounds(inputs, past, begins);
  if (cache != nullptr) cache->set_positions(std::move(positions));
  return begins;
}

// As in Python, a label at padding counts.
bool has_label_at_padding(const TextInputs& inputs, const at::Tensor& labels) {
  const at::Tensor& mask = inputs.attention_mask;
  if (!labels.defined() || !mask.defined()) return false;
  if (mask.sizes() != labels.sizes()) return true;
  return mask.eq(0).logical_and(labels.to(mask.device()).ne(kIgnoredLabel)).any().item<bool>();
}

void check_is_encoding(const TextInputs& inputs, const std::string& who) {
  if (inputs.past_key_values != nullptr || inputs.use_cache || inputs.logits_to_keep != 0)
    throw UsageError(who +
                     " reads all tokens at once: it takes no past_key_values, use_cache and "
                     "logits_to_keep");
}

}  // namespace

ModelOutput Computed::output() const {
  check_for_lost_pages();  // Checks the files of mapped weights.
  ModelOutput output;
  for (const at::Tensor& states : hidden_states)
    output.hidden_states.push_back(tokens.restore(states));
  output.attentions = attentions;
  output.past_key_values = past_key_values;
  return output;
}

ModelOutput BaseTextModel::output_of(const TextInputs& inputs) {
  const auto computed = compute(inputs, {});
  ModelOutput output = computed.output();
  output.last_hidden_state = computed.tokens.restore(computed.hidden);
  return output;
}

Tokens BaseTextModel::tokens_of(const TextInputs& inputs, const HeadNeeds& needs,
                                SequenceRule sequences) const {
  const at::Tensor& ids = inputs.input_ids;
  check_input_ids(ids);
  const bool packs =
      drops_padding() && !inputs.output_attentions && inputs.past_key_values == nullptr;
  return {ids.size(0),
          ids.size(1),
          inputs.attention_mask,
          {.past = inputs.past_key_values == nullptr ? 0 : inputs.past_key_values->length(),
           .packs = packs,
           .drops_padding = !needs.all_tokens && !has_label_at_padding(inputs, needs.token_labels),
           .needs_first_column = needs.first_token,
           .begins = begins_of(inputs, sequences),
           .device = ids.device()}};
}

at::Tensor BaseTextModel::words_of(const TextInputs& inputs, const Tokens& tokens) {
  auto table = input_embeddings();
  check_ids(inputs.input_ids, vocab_size(), "input_ids");
  return embed(table, tokens.take(inputs.input_ids), tokens.length());
}

AttentionSpec BaseTextModel::attention_spec(Computed& computed, const TextInputs& inputs) const {
  return {.kind = attention_kind(),
          .weights = inputs.output_attentions ? &computed.attentions : nullptr,
          .cache = computed.past_key_values.get()};
}

void BaseTextModel::run_layers(Computed& computed, const TextInputs& inputs,
                               const torch::nn::ModuleList& modules,
                               const std::function<Layer(std::size_t)>& layer_of) const {
  run_sharing_layers(computed, inputs, modules, [&](std::size_t i) -> SharingLayer {
    return
        [layer = layer_of(i)](const std::vector<at::Tensor>& read) { return layer(read.front()); };
  });
}

void BaseTextModel::run_sharing_layers(
    Computed& computed, const TextInputs& inputs, const torch::nn::ModuleList& modules,
    const std::function<SharingLayer(std::size_t)>& layer_of) const {
  const bool keeps_all = inputs.output_attentions || computed.past_key_values != nullptr;
  const auto leaves = shared_parameters();
  for (std::size_t i = 0; i < modules->size(); ++i) {
    const SharingLayer layer = layer_of(i);
    if (!layer) continue;
    computed.keep_hidden(inputs);
    std::vector<at::Tensor> read{computed.hidden};
    // A view, so that a layer's gradients are summed before they are added to those of other layers, as
    // where the layer is computed again.
    for (const at::Tensor& each : computed.shared) read.push_back(each.view_as(each));
    computed.hidden = keeps_all ? layer(read) : run_layer(*modules->ptr(i), read, layer, leaves);
  }
}

at::Tensor positions_of(const TextInputs& inputs, std::int64_t past) {
  if (inputs.position_ids.defined()) return inputs.position_ids;
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

void check_input_ids(const at::Tensor& ids) {
  const bool is_whole = ids.scalar_type() == at::kLong || ids.scalar_type() == at::kInt;
  if (is_whole && ids.dim() == 2 && ids.size(0) > 0 && ids.size(1) > 0) return;
  throw UsageError("input_ids are " + c10::str(ids.sizes()) + " of type " +
                   c10::toString(ids.scalar_type()) +
                   "; allowed are int64 or int32, {rows, tokens}, with one or more of each");
}

at::Tensor token_types_of(const TextInputs& inputs, std::int64_t count) {
  const at::Tensor& given = inputs.token_type_ids;
  if (!given.defined()) return at::zeros_like(inputs.input_ids);
  if (given.sizes() != inputs.input_ids.sizes()) {
    throw UsageError("token_type_ids are " + c10::str(given.sizes()) + ", and input_ids are " +
                     c10::str(inputs.input_ids.sizes()) + "; the same shape is allowed");
  }
  check_ids(given, count, "token_type_ids");
  return given;
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

void check_positions(const at::Tensor& positions, std::int64_t greatest, std::int64_t count,
                     const TextInputs& inputs) {
  if (inputs.position_ids.defined()) {
    check_ids(positions, count, "position_ids");
  } else if (greatest >= count && positions.max().item<std::int64_t>() >= count) {
    throw UsageError("a row has " + std::to_string(inputs.input_ids.size(1)) +
                     " tokens, more than the model has positions for: there are " +
                     std::to_string(count) + ". Cut texts by .truncation = true");
  }
}

Computed EncoderModel::compute(const TextInputs& inputs, const HeadNeeds& needs) {
  check_is_encoding(inputs, name());
  Computed computed{.tokens = tokens_of(inputs, needs, SequenceRule::restarts)};
  computed.hidden = embedded(inputs, computed.tokens);
  AttentionSpec spec = attention_spec(computed, inputs);
  spec.mask.values = computed.tokens.mask();
  const Run run = run_of(computed, inputs);
  run_layers(computed, inputs, layers_, [&](std::size_t i) {
    spec.first_alone = needs.first_alone && i + 1 == layers_->size();
    return [run, i, spec](const at::Tensor& hidden) { return run(i, hidden, spec); };
  });
  computed.hidden = finished(computed.hidden);
  computed.keep_hidden(inputs);
  computed.first_alone = needs.first_alone && !layers_->is_empty();
  return computed;
}

EncoderModel::Run EncoderModel::run_of(const Computed& computed, const TextInputs& /*inputs*/) {
  return [layers = layers_, tokens = computed.tokens](std::size_t i, const at::Tensor& hidden,
                                                      const AttentionSpec& spec) {
    return layers->ptr<EncoderLayer>(i)->forward(hidden, tokens, spec);
  };
}

Computed DecoderModel::begin(const TextInputs& inputs, const HeadNeeds& needs) const {
  TextInputs given = inputs;
  if (inputs.use_cache && inputs.past_key_values == nullptr)
    given.past_key_values = std::make_shared<KeyValueCache>();
  Computed computed{.tokens = tokens_of(given, needs, SequenceRule::jumps)};
  computed.past_key_values = given.past_key_values;
  return computed;
}

}  // namespace accelerate::detail
