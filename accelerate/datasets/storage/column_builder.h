// A column that grows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "accelerate/datasets/storage/column_chunk.h"

namespace accelerate::detail {

/// Takes values of one kind. An integer becomes a float in a column of floats; nothing else is
/// converted. A class that has no name, other than -1, is a DataError.
class ColumnBuilder {
 public:
  explicit ColumnBuilder(const Feature& feature);

  /// Throws DataError "a string where the column has int64" for another type, and for a string that
  /// is not UTF-8.
  void append(const Value& value);
  void append_missing();
  void append(std::int64_t value) {
    if (classes_ > 0) check_class(value);
    push(integers_, value);
  }
  void append(double value) { push(numbers_, value); }
  void append(bool value) { push(booleans_, static_cast<std::uint8_t>(value)); }
  /// Of UTF-8.
  void append(std::string_view value);
  /// Throws DataError for what is not UTF-8.
  void append_foreign_text(std::string_view value);
  /// A row of a list of integers.
  void append_integers(std::span<const std::int64_t> values);
  /// For lists that are filled entry by entry: entries() takes them, end_list() ends the row.
  [[nodiscard]] ColumnBuilder& entries() { return *entries_; }
  void end_list() { finish_row(false); }
  /// Rows [first, first + count) of a column of this feature's kind.
  void append(const ColumnChunk& column, std::size_t first, std::size_t count);

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] const Feature& feature() const { return feature_; }
  /// The column so far; the builder is empty then.
  [[nodiscard]] ColumnChunk finish();

 private:
  template <typename T>
  void push(std::vector<T>& values, T value) {
    values.push_back(value);
    finish_row(false);
  }
  void finish_row(bool is_missing);
  void append_list(const Value& value);
  void append_ranges(const ColumnChunk& column, std::size_t first, std::size_t count);
  [[noreturn]] void refuse(const Value& value) const;
  void check_class(std::int64_t value) const;

  Feature feature_;
  std::int64_t classes_;
  std::size_t size_ = 0;
  std::vector<std::int64_t> integers_;
  std::vector<double> numbers_;
  std::vector<std::uint8_t> booleans_;
  std::vector<char> text_;
  std::vector<std::int64_t> offsets_;
  /// Empty as long as nothing is missing.
  std::vector<std::uint8_t> missing_;
  std::unique_ptr<ColumnBuilder> entries_;
};

/// The feature that holds `value`, and what `known` holds; nullopt when none holds both. An integer
/// and a float make a float, nothing and anything make the latter.
[[nodiscard]] std::optional<Feature> feature_of(const Value& value,
                                                const std::optional<Feature>& known = {});

}  // namespace accelerate::detail
