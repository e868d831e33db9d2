#include "accelerate/transformers/datasets/row_batch.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "accelerate/base/error.h"
#include "accelerate/transformers/datasets/cell_error.h"
#include "accelerate/transformers/datasets/names.h"
#include "accelerate/transformers/datasets/storage/column_builder.h"

namespace accelerate {
namespace {

using Kind = Feature::Kind;

template <typename T, typename Get>
std::vector<T> copied(const RowBatch::NamedColumn& named, std::initializer_list<Kind> kinds,
                      Get get) {
  const bool is_right = std::ranges::find(kinds, named.column.kind()) != kinds.end();
  if (!is_right)
    throw UsageError("the column '" + named.name + "' has " + named.feature.description() +
                     ", and is read as another type. values() reads any type");
  std::vector<T> values;
  values.reserve(named.column.size());
  for (std::size_t i = 0; i < named.column.size(); ++i) {
    if (named.column.is_missing(i)) {
      throw UsageError("the column '" + named.name + "' has a missing value in row " +
                       std::to_string(i) +
                       " of the batch. Leave out rows without a value by filter(), or "
                       "read the column by values() and fill the value in");
    }
    values.push_back(get(i));
  }
  return values;
}

template <typename T, typename Get>
std::vector<std::vector<T>> copied_lists(const RowBatch::NamedColumn& named, Get get) {
  return copied<std::vector<T>>(named, {Kind::list}, [&](std::size_t row) {
    std::vector<T> entries;
    try {
      for (const Value& entry : named.column.at(row).list())
        entries.push_back(std::invoke(get, entry));
    } catch (const detail::CellError& error) {
      throw UsageError("the column '" + named.name + "', in the list in row " +
                       std::to_string(row) + " of the batch: " + error.what());
    }
    return entries;
  });
}

template <typename T>
void set_list(RowBatch& batch, std::string_view name, const Feature& feature,
              const std::vector<T>& values) {
  detail::ColumnBuilder builder(feature);
  for (const auto& value : values) builder.append(value);
  batch.set_column(name, feature, builder.finish());
}

}  // namespace

RowBatch::RowBatch(std::initializer_list<std::pair<std::string, Values>> columns) {
  for (const auto& [name, values] : columns)
    std::visit([&, &name = name](const auto& list) { set(name, list); }, values);
}

const RowBatch::NamedColumn& RowBatch::find(std::string_view name) const {
  const auto found = std::ranges::find(columns_, name, &NamedColumn::name);
  if (found != columns_.end()) return *found;
  throw UsageError(detail::no_such("column", name, names()));
}

std::vector<std::string> RowBatch::names() const {
  std::vector<std::string> names;
  for (const auto& column : columns_) names.push_back(column.name);
  return names;
}

bool RowBatch::contains(std::string_view name) const {
  return std::ranges::find(columns_, name, &NamedColumn::name) != columns_.end();
}

std::vector<std::int64_t> RowBatch::integers(std::string_view name) const {
  const auto& named = find(name);
  return copied<std::int64_t>(named, {Kind::integer},
                              [&](std::size_t i) { return named.column.integer(i); });
}

std::vector<double> RowBatch::numbers(std::string_view name) const {
  const auto& named = find(name);
  return copied<double>(named, {Kind::integer, Kind::floating}, [&](std::size_t i) {
    return named.column.kind() == Kind::integer ? static_cast<double>(named.column.integer(i))
                                                : named.column.number(i);
  });
}

std::vector<std::string> RowBatch::texts(std::string_view name) const {
  const auto& named = find(name);
  return copied<std::string>(named, {Kind::string},
                             [&](std::size_t i) { return std::string(named.column.text(i)); });
}

std::vector<std::vector<std::string>> RowBatch::text_lists(std::string_view name) const {
  return copied_lists<std::string>(find(name), &Value::text);
}

std::vector<std::vector<std::int64_t>> RowBatch::integer_lists(std::string_view name) const {
  return copied_lists<std::int64_t>(find(name), &Value::integer);
}

std::vector<Value> RowBatch::values(std::string_view name) const {
  const auto& named = find(name);
  std::vector<Value> values;
  for (std::size_t i = 0; i < named.column.size(); ++i) values.push_back(named.column.at(i));
  return values;
}

Row RowBatch::row(std::size_t index) const {
  if (index >= size())
    throw UsageError("there is no row " + std::to_string(index) + "; the batch has " +
                     std::to_string(size()));
  Row row;
  for (const auto& named : columns_) row.set(named.name, named.column.at(index));
  return row;
}

void RowBatch::set(std::string_view name, const std::vector<std::int64_t>& values) {
  set_list(*this, name, Feature::integer(), values);
}
void RowBatch::set(std::string_view name, const std::vector<double>& values) {
  set_list(*this, name, Feature::floating(), values);
}

void RowBatch::set(std::string_view name, const std::vector<bool>& values) {
  detail::ColumnBuilder builder(Feature::boolean());
  for (const bool value : values) builder.append(value);
  set_column(name, Feature::boolean(), builder.finish());
}

void RowBatch::set(std::string_view name, const std::vector<std::string>& values) {
  detail::ColumnBuilder builder(Feature::string());
  for (const std::string& value : values) builder.append_foreign_text(value);
  set_column(name, Feature::string(), builder.finish());
}

void RowBatch::set(std::string_view name, const std::vector<std::vector<std::int64_t>>& values) {
  const Feature feature = Feature::list_of(Feature::integer());
  detail::ColumnBuilder builder(feature);
  for (const auto& value : values) builder.append_integers(value);
  set_column(name, feature, builder.finish());
}

void RowBatch::set(std::string_view name, const std::vector<std::vector<double>>& values) {
  const Feature feature = Feature::list_of(Feature::floating());
  detail::ColumnBuilder builder(feature);
  for (const auto& value : values) builder.append(Value(value));
  set_column(name, feature, builder.finish());
}

void RowBatch::set(std::string_view name, const std::vector<Value>& values) {
  std::optional<Feature> feature = Feature::null();
  for (const Value& value : values) {
    auto wider = detail::feature_of(value, feature);
    if (!wider) {
      throw UsageError("the column '" + std::string(name) + "' would have " +
                       feature->description() + " and " + value.description());
    }
    feature = std::move(wider);
  }
  set_list(*this, name, *feature, values);
}

void RowBatch::set(const BatchEncoding& encoding) {
  for (const auto& [name, column] : encoding.columns()) set(name, column);
}

void RowBatch::set_column(std::string_view name, const Feature& feature,
                          detail::ColumnChunk column) {
  const auto found = std::ranges::find(columns_, name, &NamedColumn::name);
  if (found == columns_.end()) {
    columns_.push_back({std::string(name), feature, std::move(column)});
  } else {
    found->feature = feature;
    found->column = std::move(column);
  }
}

}  // namespace accelerate
