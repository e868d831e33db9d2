#include "accelerate/transformers/datasets/readers/json_columns.h"

#include <algorithm>

namespace accelerate::detail {
namespace {

using Element = simdjson::dom::element;
using Type = simdjson::dom::element_type;
using Kind = Feature::Kind;

bool append_value(ColumnBuilder& builder, const Element& value, std::size_t depth);

bool append_list(ColumnBuilder& builder, const Element& list, std::size_t depth) {
  if (depth > kDeepestJsonList) return false;
  const simdjson::dom::array entries = list.get_array().value_unsafe();
  for (const Element entry : entries) {
    if (!append_value(builder.entries(), entry, depth + 1)) return false;
  }
  builder.end_list();
  return true;
}

bool append_value(ColumnBuilder& builder, const Element& value, std::size_t depth) {
  const Type type = value.type();
  if (type == Type::NULL_VALUE) {
    builder.append_missing();
    return true;
  }
  switch (builder.feature().kind()) {
    case Kind::integer:
      if (type == Type::INT64) builder.append(value.get_int64().value_unsafe());
      return type == Type::INT64;
    case Kind::floating:
      if (type == Type::INT64)
        builder.append(static_cast<double>(value.get_int64().value_unsafe()));
      if (type == Type::DOUBLE) builder.append(value.get_double().value_unsafe());
      return type == Type::INT64 || type == Type::DOUBLE;
    case Kind::boolean:
      if (type == Type::BOOL) builder.append(value.get_bool().value_unsafe());
      return type == Type::BOOL;
    case Kind::string:
      // The parser has checked that it is UTF-8.
      if (type == Type::STRING) builder.append(value.get_string().value_unsafe());
      return type == Type::STRING;
    case Kind::list:
      return type == Type::ARRAY && append_list(builder, value, depth);
    case Kind::null:
      break;
  }
  return false;
}

bool has_classes(const Feature& feature) {
  return feature.kind() == Kind::list ? has_classes(feature.element()) : feature.is_class_label();
}

}  // namespace

JsonColumns::JsonColumns(const Features& features) : features_(features) {
  for (const auto& [name, feature] : features) {
    numbers_.emplace(name, builders_.size());
    builders_.emplace_back(feature);
  }
  filled_.assign(builders_.size(), 0);
}

bool JsonColumns::takes(const Features& features) {
  return std::ranges::none_of(features, [](const auto& one) { return has_classes(one.second); });
}

// Rows of a file mostly have their keys in the order of the columns.
std::size_t JsonColumns::find(std::string_view key, std::size_t likely) const {
  if (likely < features_.size() && features_[likely].first == key) return likely;
  const auto found = numbers_.find(key);
  return found == numbers_.end() ? features_.size() : found->second;
}

bool JsonColumns::append(const Element& row) {
  simdjson::dom::object object;
  if (row.get(object) != simdjson::SUCCESS) return false;
  ++rows_;
  std::size_t likely = 0, found = 0;
  for (const auto& [key, value] : object) {
    const std::size_t column = find(key, likely);
    if (column == features_.size() || filled_[column] == rows_) return false;
    if (!append_value(builders_[column], value, 0)) return false;
    filled_[column] = rows_;
    likely = column + 1;
    ++found;
  }
  for (std::size_t i = 0; found < filled_.size() && i < filled_.size(); ++i) {
    if (filled_[i] != rows_) builders_[i].append_missing();
  }
  return true;
}

Chunk JsonColumns::finish() {
  Chunk chunk{.rows = rows_};
  for (ColumnBuilder& builder : builders_) chunk.columns.push_back(builder.finish());
  rows_ = 0;
  std::ranges::fill(filled_, 0);
  return chunk;
}

}  // namespace accelerate::detail
