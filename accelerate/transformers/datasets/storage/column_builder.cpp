#include "accelerate/transformers/datasets/storage/column_builder.h"

#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/utf8.h"

namespace accelerate::detail {
namespace {

using Kind = Feature::Kind;

template <typename T>
Buffer buffer_of(std::vector<T> values) {
  if (values.empty()) return {};
  // The column may be kept, and may have allocated twice its size.
  if (values.capacity() > values.size() + values.size() / 4) values.shrink_to_fit();
  auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  return {owner, std::as_bytes(std::span(*owner))};
}

template <typename T>
void extend(std::vector<T>& values, std::span<const T> more) {
  values.insert(values.end(), more.begin(), more.end());
}

std::optional<Feature> common(const Feature& one, const std::optional<Feature>& other) {
  if (!other || one == *other || other->kind() == Kind::null) return one;
  if (one.kind() == Kind::null) return other;
  if (one.kind() == Kind::list && other->kind() == Kind::list) {
    auto element = common(one.element(), other->element());
    return element ? std::optional(Feature::list_of(std::move(*element))) : std::nullopt;
  }
  const auto is_number = [](const Feature& feature) {
    return feature.kind() == Kind::integer || feature.kind() == Kind::floating;
  };
  if (is_number(one) && is_number(*other)) return Feature::floating();
  return std::nullopt;
}

std::optional<Feature> feature_of_list(const Value::List& list,
                                       const std::optional<Feature>& known) {
  std::optional<Feature> element;
  if (known && known->kind() == Kind::list) element = known->element();
  for (const Value& entry : list) {
    if (entry.is_missing()) continue;
    element = feature_of(entry, element);
    if (!element) return std::nullopt;
  }
  return Feature::list_of(element.value_or(Feature::null()));
}

}  // namespace

ColumnBuilder::ColumnBuilder(const Feature& feature)
    : feature_(feature), classes_(static_cast<std::int64_t>(feature.names().size())) {
  if (feature.kind() == Kind::list) entries_ = std::make_unique<ColumnBuilder>(feature.element());
  if (feature.kind() == Kind::list || feature.kind() == Kind::string) offsets_.push_back(0);
}

void ColumnBuilder::refuse(const Value& value) const {
  throw DataError(value.description() + " where the column has " + feature_.description());
}

void ColumnBuilder::check_class(std::int64_t value) const {
  if (value >= -1 && value < classes_) return;
  throw DataError("the class " + std::to_string(value) + " where the column has " +
                  feature_.description());
}

void ColumnBuilder::finish_row(bool is_missing) {
  if (feature_.kind() == Kind::list)
    offsets_.push_back(static_cast<std::int64_t>(entries_->size()));
  if (feature_.kind() == Kind::string) offsets_.push_back(static_cast<std::int64_t>(text_.size()));
  const bool marks = feature_.kind() != Kind::null && (is_missing || !missing_.empty());
  if (marks && missing_.empty()) missing_.assign(size_, 0);
  if (marks) missing_.push_back(is_missing ? 1 : 0);
  ++size_;
}

void ColumnBuilder::append_missing() {
  if (feature_.kind() == Kind::integer) integers_.push_back(0);
  if (feature_.kind() == Kind::floating) numbers_.push_back(0);
  if (feature_.kind() == Kind::boolean) booleans_.push_back(0);
  finish_row(true);
}

void ColumnBuilder::append(std::string_view value) {
  text_.insert(text_.end(), value.begin(), value.end());
  finish_row(false);
}

void ColumnBuilder::append_foreign_text(std::string_view value) {
  if (!is_utf8(value)) throw DataError("a string that is not UTF-8");
  append(value);
}

void ColumnBuilder::append_integers(std::span<const std::int64_t> values) {
  entries_->integers_.insert(entries_->integers_.end(), values.begin(), values.end());
  if (!entries_->missing_.empty())
    entries_->missing_.insert(entries_->missing_.end(), values.size(), 0);
  entries_->size_ += values.size();
  finish_row(false);
}

void ColumnBuilder::append(const Value& value) {
  if (value.is_missing()) return append_missing();
  switch (feature_.kind()) {
    case Kind::null:
      break;
    case Kind::integer:
      if (value.holds<std::int64_t>()) return append(value.integer());
      break;
    case Kind::floating:
      if (value.holds<std::int64_t>() || value.holds<double>()) return append(value.number());
      break;
    case Kind::boolean:
      if (value.holds<bool>()) return append(value.boolean());
      break;
    case Kind::string:
      if (value.holds<std::string>()) return append_foreign_text(value.text());
      break;
    case Kind::list:
      return append_list(value);
  }
  refuse(value);
}

void ColumnBuilder::append_list(const Value& value) {
  const bool takes_integers =
      feature_.element().kind() == Kind::integer && !feature_.element().is_class_label();
  if (value.holds<std::vector<std::int64_t>>() && takes_integers) {
    return append_integers(value.integers());
  } else if (value.holds<std::vector<double>>() && feature_.element().kind() == Kind::floating) {
    for (const double entry : value.numbers()) entries_->append(entry);
  } else if (value.is_list()) {
    for (const Value& entry : value.list()) entries_->append(entry);
  } else {
    refuse(value);
  }
  finish_row(false);
}

void ColumnBuilder::append(const ColumnChunk& column, std::size_t first, std::size_t count) {
  const auto& parts = column.parts();
  if (parts.kind == Kind::null) {
    for (std::size_t i = 0; i < count; ++i) append_missing();
    return;
  }
  switch (feature_.kind()) {
    case Kind::null:
      break;
    case Kind::integer:
      extend(integers_, parts.values.as<std::int64_t>().subspan(first, count));
      break;
    case Kind::floating:
      extend(numbers_, parts.values.as<double>().subspan(first, count));
      break;
    case Kind::boolean:
      extend(booleans_, parts.values.as<std::uint8_t>().subspan(first, count));
      break;
    default:
      append_ranges(column, first, count);
  }
  if (!parts.missing.bytes.empty() && missing_.empty()) missing_.assign(size_, 0);
  if (!parts.missing.bytes.empty()) {
    extend(missing_, parts.missing.as<std::uint8_t>().subspan(first, count));
  } else if (!missing_.empty()) {
    missing_.insert(missing_.end(), count, 0);
  }
  size_ += count;
}

void ColumnBuilder::append_ranges(const ColumnChunk& column, std::size_t first, std::size_t count) {
  if (count == 0) return;
  const std::size_t begin = column.range(first).begin, end = column.range(first + count - 1).end;
  const auto shift = offsets_.back() - static_cast<std::int64_t>(begin);
  // range() checks each offset, because a damaged file may have offsets out of order.
  for (std::size_t row = first; row < first + count; ++row)
    offsets_.push_back(static_cast<std::int64_t>(column.range(row).end) + shift);
  if (feature_.kind() == Kind::list) {
    entries_->append(*column.parts().entries, begin, end - begin);
  } else {
    extend(text_, column.parts().values.as<char>().subspan(begin, end - begin));
  }
}

std::size_t ColumnBuilder::bytes() const {
  return integers_.size() * 8 + numbers_.size() * 8 + booleans_.size() + text_.size() +
         offsets_.size() * 8 + missing_.size() + (entries_ ? entries_->bytes() : 0);
}

ColumnChunk ColumnBuilder::finish() {
  ColumnChunk::Parts parts;
  parts.kind = feature_.kind();
  parts.size = size_;
  switch (feature_.kind()) {
    case Kind::null:
      break;
    case Kind::integer:
      parts.values = buffer_of(std::move(integers_));
      break;
    case Kind::floating:
      parts.values = buffer_of(std::move(numbers_));
      break;
    case Kind::boolean:
      parts.values = buffer_of(std::move(booleans_));
      break;
    case Kind::string:
      parts.values = buffer_of(std::move(text_));
      break;
    case Kind::list:
      parts.entries = std::make_shared<const ColumnChunk>(entries_->finish());
      break;
  }
  parts.offsets = buffer_of(std::move(offsets_));
  parts.missing = buffer_of(std::move(missing_));
  *this = ColumnBuilder(Feature(feature_));
  expect_as_much_as(parts);
  return ColumnChunk(std::move(parts));
}

// The next column mostly has the size of the one before it.
void ColumnBuilder::expect_as_much_as(const ColumnChunk::Parts& parts) {
  const std::size_t bytes = parts.values.bytes.size();
  if (parts.kind == Kind::integer) integers_.reserve(bytes / sizeof(std::int64_t));
  if (parts.kind == Kind::floating) numbers_.reserve(bytes / sizeof(double));
  if (parts.kind == Kind::boolean) booleans_.reserve(bytes);
  if (parts.kind == Kind::string) text_.reserve(bytes);
  offsets_.reserve(parts.offsets.bytes.size() / sizeof(std::int64_t));
}

std::optional<Feature> feature_of(const Value& value, const std::optional<Feature>& known) {
  return value.visit([&]<typename T>(const T& data) -> std::optional<Feature> {
    if constexpr (std::is_same_v<T, std::monostate>)
      return known;
    else if constexpr (std::is_same_v<T, std::int64_t>)
      return common(Feature::integer(), known);
    else if constexpr (std::is_same_v<T, double>)
      return common(Feature::floating(), known);
    else if constexpr (std::is_same_v<T, bool>)
      return common(Feature::boolean(), known);
    else if constexpr (std::is_same_v<T, std::string>)
      return common(Feature::string(), known);
    else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
      return common(Feature::list_of(Feature::integer()), known);
    else if constexpr (std::is_same_v<T, std::vector<double>>)
      return common(Feature::list_of(Feature::floating()), known);
    else if constexpr (std::is_same_v<T, std::vector<bool>>)
      return common(Feature::list_of(Feature::boolean()), known);
    else if constexpr (std::is_same_v<T, std::vector<std::string>>)
      return common(Feature::list_of(Feature::string()), known);
    else if (known && known->kind() != Kind::list && known->kind() != Kind::null)
      return std::nullopt;
    else
      return feature_of_list(data, known);
  });
}

}  // namespace accelerate::detail
