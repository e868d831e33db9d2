#include "accelerate/transformers/datasets/collators/tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <optional>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

constexpr std::array<std::string_view, 4> kPadded{"input_ids", "token_type_ids", "attention_mask",
                                                  "special_tokens_mask"};

bool is_padded(std::string_view name) {
  return std::ranges::find(kPadded, name) != kPadded.end();
}

bool is_label(std::string_view name) {
  return name == "label" || name == "labels" || name == "label_ids";
}

[[noreturn]] void refuse(std::string_view name, const Value& value) {
  const std::string quoted = "\"" + std::string(name) + "\"";
  std::string cure = "Leave the column out by remove_columns or set_format";
  if (value.holds<std::string>() && is_label(name))
    cure = "Make it class labels by class_encode_column(" + quoted + ")";
  if (value.is_missing())
    cure = "Leave out rows without a value by filter(), or fill the value in by map()";
  throw UsageError("the column '" + std::string(name) + "' has " + value.description() +
                   ", which cannot become a tensor. " + cure);
}

// Appends `value`, a number or a list of numbers at any depth, to `into`.
template <typename T>
void flatten(const Value& value, std::string_view name, std::vector<T>& into) {
  value.visit([&]<typename V>(const V& data) {
    if constexpr (std::is_same_v<V, std::int64_t> || std::is_same_v<V, double> ||
                  std::is_same_v<V, bool>) {
      into.push_back(static_cast<T>(data));
    } else if constexpr (std::is_same_v<V, std::vector<std::int64_t>> ||
                         std::is_same_v<V, std::vector<double>> ||
                         std::is_same_v<V, std::vector<bool>>) {
      for (const auto entry : data) into.push_back(static_cast<T>(entry));
    } else if constexpr (std::is_same_v<V, Value::List>) {
      for (const Value& entry : data) flatten(entry, name, into);
    } else {
      refuse(name, value);
    }
  });
}

// Names the collator that pads the column.
std::string cure_of_ragged(std::string_view name) {
  if (is_label(name))
    return "Labels of tokens are padded by DataCollatorForTokenClassification, labels of their own "
           "length by DataCollatorForSeq2Seq";
  if (is_padded(name))
    return "DataCollatorWithPadding pads it; a Trainer takes that where it has processing_class, "
           "the tokenizer";
  return "Pad it, or leave it out by remove_columns";
}

[[noreturn]] void refuse_ragged(std::string_view name) {
  throw UsageError("the column '" + std::string(name) +
                   "' has lists of unequal lengths, and the collator does not pad this column. " +
                   cure_of_ragged(name));
}

// Returns the lengths of the lists in `value`, from the outermost list on.
std::vector<std::int64_t> shape_of(const Value& value, std::string_view name) {
  return value.visit([&]<typename V>(const V& data) -> std::vector<std::int64_t> {
    if constexpr (std::is_same_v<V, Value::List>) {
      std::vector<std::int64_t> shape{static_cast<std::int64_t>(data.size())};
      if (data.empty()) return shape;
      const auto inner = shape_of(data.front(), name);
      for (const Value& entry : data) {
        if (shape_of(entry, name) != inner) refuse_ragged(name);
      }
      shape.insert(shape.end(), inner.begin(), inner.end());
      return shape;
    } else if constexpr (requires { data.begin(); } && !std::is_same_v<V, std::string>) {
      return {static_cast<std::int64_t>(data.size())};
    } else {
      return {};
    }
  });
}

// Returns the type that torch.tensor() gives to both together: bool and int64 give int64, and any
// float gives float32.
std::optional<at::ScalarType> promoted(std::optional<at::ScalarType> one,
                                       std::optional<at::ScalarType> other) {
  if (!one || !other) return one ? one : other;
  if (one == at::kFloat || other == at::kFloat) return at::kFloat;
  return one == at::kBool && other == at::kBool ? at::kBool : at::kLong;
}

// Returns nullopt for lists that are all empty.
std::optional<at::ScalarType> type_of(const Value& value) {
  return value.visit([&]<typename V>(const V& data) -> std::optional<at::ScalarType> {
    if constexpr (std::is_same_v<V, Value::List>) {
      std::optional<at::ScalarType> type;
      for (const Value& entry : data) type = promoted(type, type_of(entry));
      return type;
    } else if constexpr (std::is_same_v<V, double>) {
      return at::kFloat;
    } else if constexpr (std::is_same_v<V, bool>) {
      return at::kBool;
    } else if constexpr (requires { data.begin(); } && !std::is_same_v<V, std::string>) {
      if (data.empty()) return std::nullopt;
      if (std::is_same_v<V, std::vector<double>>) return at::kFloat;
      return std::is_same_v<V, std::vector<bool>> ? at::kBool : at::kLong;
    } else {
      return at::kLong;
    }
  });
}

// Fills a tensor with the values of rows that all have `shape`.
at::Tensor filled(const std::vector<Row>& rows, std::string_view name,
                  std::vector<std::int64_t> shape, at::ScalarType type) {
  shape.insert(shape.begin(), static_cast<std::int64_t>(rows.size()));
  at::Tensor tensor = at::empty(shape, at::TensorOptions(type));
  const auto fill = [&]<typename T>(T* out) {
    std::vector<T> values;
    values.reserve(static_cast<std::size_t>(tensor.numel()));
    for (const Row& row : rows) flatten(row[name], name, values);
    std::copy(values.begin(), values.end(), out);
  };
  if (type == at::kFloat) fill(tensor.mutable_data_ptr<float>());
  if (type == at::kLong) fill(tensor.mutable_data_ptr<std::int64_t>());
  if (type == at::kBool) {
    std::vector<std::uint8_t> values;
    for (const Row& row : rows) flatten(row[name], name, values);
    std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<bool>());
  }
  return tensor;
}

}  // namespace

void check_rows(const std::vector<Row>& rows) {
  if (rows.empty()) throw UsageError("a collator got no rows; a batch has one or more");
}

std::string label_name(const std::vector<Row>& rows) {
  return rows.front().contains("label") ? "label" : "labels";
}

at::Tensor stacked(const std::vector<Row>& rows, std::string_view name) {
  const Value& first = rows.front()[name];
  if (first.is_missing()) refuse(name, first);
  const auto shape = shape_of(first, name);
  std::optional<at::ScalarType> type;
  for (const Row& row : rows) {
    type = promoted(type, type_of(row[name]));
    if (shape_of(row[name], name) != shape) refuse_ragged(name);
  }
  return filled(rows, name, shape, type.value_or(at::kFloat));
}

at::Tensor tensor_of(const BatchEncoding::Column& column) {
  const std::size_t length = column.empty() ? 0 : column.front().size();
  at::Tensor tensor =
      at::empty({static_cast<std::int64_t>(column.size()), static_cast<std::int64_t>(length)},
                at::TensorOptions(at::kLong));
  auto* out = tensor.mutable_data_ptr<std::int64_t>();
  for (const auto& row : column) {
    if (row.size() != length)
      throw UsageError("a column has rows of " + std::to_string(length) + " and " +
                       std::to_string(row.size()) +
                       " tokens, which make no tensor. Ask for padding; masks and token types need "
                       "the lengths of input_ids");
    out = std::copy(row.begin(), row.end(), out);
  }
  return tensor;
}

BatchEncoding::Column integers_of(const std::vector<Row>& rows, std::string_view name) {
  BatchEncoding::Column column;
  for (const Row& row : rows) {
    const Value& value = row[name];
    if (value.holds<std::vector<std::int64_t>>()) {
      column.push_back(value.integers());
      continue;
    }
    const Value::List list = value.is_list() ? value.list() : Value::List();
    const bool are_integers =
        std::ranges::all_of(list, [](const Value& entry) { return entry.holds<std::int64_t>(); });
    if (!value.is_list() || !are_integers) {
      throw UsageError("the column '" + std::string(name) + "' has " + value.description() +
                       "; allowed are lists of integers");
    }
    column.emplace_back();
    for (const Value& entry : list) column.back().push_back(entry.integer());
  }
  return column;
}

Inputs padded(const PreTrainedTokenizer& tokenizer, const std::vector<Row>& rows,
              const TokenizerPadOptions& options, std::string_view without) {
  check_rows(rows);
  BatchEncoding batch;
  for (const auto& [name, value] : rows.front()) {
    if (name != without && is_padded(name)) batch.set(name, integers_of(rows, name));
  }
  const BatchEncoding filled_up = tokenizer.pad(std::move(batch), options);
  // The order is: columns of a row, columns that padding has made, labels.
  Inputs inputs;
  std::optional<std::string> label;
  for (const auto& [name, value] : rows.front()) {
    if (name == without || value.is_missing()) continue;
    if (name == "label" || name == "label_ids") {
      label = name;
    } else {
      inputs.set(name, is_padded(name) ? tensor_of(filled_up[name]) : stacked(rows, name));
    }
  }
  for (const auto& [name, column] : filled_up.columns()) {
    if (!inputs.contains(name)) inputs.set(name, tensor_of(column));
  }
  if (label) inputs.set("labels", stacked(rows, *label));
  return inputs;
}

}  // namespace accelerate::detail
