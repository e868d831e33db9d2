#include "accelerate/transformers/datasets/collators/data_collators.h"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/transformers/datasets/collators/tensors.h"

namespace accelerate {
namespace {

// Pads labels to `length`, on the side on which the tokenizer pads.
at::Tensor padded_labels(const std::vector<Row>& rows, const PreTrainedTokenizer& tokenizer,
                         std::size_t length, std::int64_t filler) {
  auto labels = detail::integers_of(rows, detail::label_name(rows));
  for (auto& row : labels) {
    if (row.size() > length) {
      throw UsageError("a row has " + std::to_string(row.size()) + " labels and " +
                       std::to_string(length) + " tokens; one label a token is allowed");
    }
    row.insert(tokenizer.padding_side() == Side::right ? row.end() : row.begin(),
               length - row.size(), filler);
  }
  return detail::tensor_of(labels);
}

bool has_labels(const std::vector<Row>& rows) {
  const std::string name = detail::label_name(rows);
  return rows.front().contains(name) && !rows.front()[name].is_missing();
}

}  // namespace

Inputs to_inputs(const BatchEncoding& encoding) {
  Inputs inputs;
  for (const auto& [name, column] : encoding.columns()) inputs.set(name, detail::tensor_of(column));
  return inputs;
}

Inputs default_data_collator(std::vector<Row> rows) {
  detail::check_rows(rows);
  Inputs inputs;
  for (const std::string_view name : {"label", "label_ids"}) {
    const Value* label = rows.front().find(name);
    if (label == nullptr || label->is_missing() || inputs.contains("labels")) continue;
    const at::Tensor labels = detail::stacked(rows, name);
    // Booleans are integers in Python.
    inputs.set("labels", labels.scalar_type() == at::kBool ? labels.to(at::kLong) : labels);
  }
  for (const auto& [name, value] : rows.front()) {
    const bool is_label = name == "label" || name == "label_ids";
    if (!is_label && !value.is_missing() && !value.holds<std::string>())
      inputs.set(name, detail::stacked(rows, name));
  }
  return inputs;
}

Inputs DataCollatorWithPadding::operator()(std::vector<Row> rows) const {
  return detail::padded(
      tokenizer, rows,
      {.padding = padding, .max_length = max_length, .pad_to_multiple_of = pad_to_multiple_of});
}

Inputs DataCollatorForTokenClassification::operator()(std::vector<Row> rows) const {
  detail::check_rows(rows);
  const std::string name = detail::label_name(rows);
  Inputs inputs = detail::padded(
      tokenizer, rows,
      {.padding = padding, .max_length = max_length, .pad_to_multiple_of = pad_to_multiple_of},
      name);
  if (!rows.front().contains(name)) return inputs;
  const auto length = static_cast<std::size_t>(inputs["input_ids"].size(1));
  inputs.set(name, padded_labels(rows, tokenizer, length, label_pad_token_id));
  return inputs;
}

Inputs DataCollatorForSeq2Seq::operator()(std::vector<Row> rows) const {
  detail::check_rows(rows);
  const std::string name = detail::label_name(rows);
  Inputs inputs = detail::padded(
      tokenizer, rows,
      {.padding = padding, .max_length = max_length, .pad_to_multiple_of = pad_to_multiple_of},
      name);
  if (!has_labels(rows)) return inputs;
  std::size_t length = 0;
  for (const auto& row : detail::integers_of(rows, name)) length = std::max(length, row.size());
  if (padding.strategy() == Padding::Strategy::max_length && max_length) length = *max_length;
  const std::size_t multiple = pad_to_multiple_of.value_or(1);
  if (padding.strategy() != Padding::Strategy::do_not_pad)
    length = (length + multiple - 1) / multiple * multiple;
  inputs.set("labels", padded_labels(rows, tokenizer, length, label_pad_token_id));
  if (prepare_decoder_input_ids)
    inputs.set("decoder_input_ids", prepare_decoder_input_ids(inputs["labels"]));
  return inputs;
}

Inputs DataCollatorWithFlattening::operator()(std::vector<Row> rows) const {
  detail::check_rows(rows);
  const auto ids = detail::integers_of(rows, "input_ids");
  const auto labels = rows.front().contains("labels") ? detail::integers_of(rows, "labels") : ids;
  std::vector<std::int64_t> all_ids, all_labels, positions;
  std::vector<std::int32_t> sequences, begins{0};
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    all_ids.insert(all_ids.end(), ids[i].begin(), ids[i].end());
    all_labels.push_back(separator_id);
    if (!labels[i].empty())
      all_labels.insert(all_labels.end(), labels[i].begin() + 1, labels[i].end());
    for (std::size_t k = 0; k < ids[i].size(); ++k)
      positions.push_back(position_ids_start + static_cast<std::int64_t>(k));
    sequences.insert(sequences.end(), ids[i].size(), static_cast<std::int32_t>(i));
    begins.push_back(static_cast<std::int32_t>(all_ids.size()));
    longest = std::max(longest, static_cast<std::int64_t>(ids[i].size()));
  }
  Inputs inputs{{"input_ids", at::tensor(all_ids, at::kLong).unsqueeze(0)},
                {"labels", at::tensor(all_labels, at::kLong).unsqueeze(0)}};
  if (return_position_ids)
    inputs.set("position_ids", at::tensor(positions, at::kLong).unsqueeze(0));
  if (return_seq_idx) inputs.set("seq_idx", at::tensor(sequences, at::kInt).unsqueeze(0));
  if (return_flash_attn_kwargs) {
    inputs.set("cu_seq_lens_q", at::tensor(begins, at::kInt));
    inputs.set("cu_seq_lens_k", at::tensor(begins, at::kInt));
    inputs.set("max_length_q", at::scalar_tensor(longest, at::kLong));
    inputs.set("max_length_k", at::scalar_tensor(longest, at::kLong));
  }
  inputs.set_flattened(true);
  return inputs;
}

}  // namespace accelerate
