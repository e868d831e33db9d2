// Builds a column value by value.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "accelerate/transformers/datasets/storage/column_chunk.h"

namespace accelerate::detail {

/// Takes values of one kind. In a column of floats, integers become floats; nothing else is
/// converted. Throws DataError for a class number that has no name and is not -1.
class ColumnBuilder {
 public:
  explicit ColumnBuilder(const Feature& feature);

  /// Throws DataError for a value of another type, "a string where the column has int64", and for a
  /// string that is not UTF-8.
  void append(const Value& value);
  void append_missing();
  void append(std::int64_t value) {
    if (classes_ > 0) check_class(value);
    push(integers_, value);
  }
  void append(double value) { push(numbers_, value); }
  void append(bool value) { push(booleans_, static_cast<std::uint8_t>(value)); }
  /// The text must be UTF-8.
  void append(std::string_view value);
  /// Throws DataError if the text is not UTF-8.
  void append_foreign_text(std::string_view value);
  /// Appends one row to a column of lists of integers.
  void append_integers(std::span<const std::int64_t> values);
  /// For lists that are built entry by entry: append the entries to entries(), then call
  /// end_list().
  [[nodiscard]] ColumnBuilder& entries() { return *entries_; }
  void end_list() { finish_row(false); }
  /// Appends rows [first, first + count) of `column`, which has the kind of this feature.
  void append(const ColumnChunk& column, std::size_t first, std::size_t count);

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] const Feature& feature() const { return feature_; }
  /// Returns the column built so far, and leaves the builder empty.
  [[nodiscard]] ColumnChunk finish();

 private:
  template <typename T>
  void push(std::vector<T>& values, T value) {
    values.push_back(value);
    finish_row(false);
  }
  void finish_row(bool is_missing);
  void expect_as_much_as(const ColumnChunk::Parts& parts);
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
  /// Empty while no value is missing.
  std::vector<std::uint8_t> missing_;
  std::unique_ptr<ColumnBuilder> entries_;
};

/// Returns the feature that holds both `value` and the values of `known`; nullopt if there is none.
/// An integer and a float give a float. A missing value gives `known`.
[[nodiscard]] std::optional<Feature> feature_of(const Value& value,
                                                const std::optional<Feature>& known = {});

}  // namespace accelerate::detail
