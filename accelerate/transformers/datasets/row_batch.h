// Several rows, stored as columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "accelerate/transformers/datasets/features.h"
#include "accelerate/transformers/datasets/row.h"
#include "accelerate/transformers/datasets/storage/column_chunk.h"
#include "accelerate/transformers/tokenizers/pretrained/batch_encoding.h"

namespace accelerate {

/// Input and result of a batched map(). All columns have the same number of rows.
class RowBatch {
 public:
  /// The types of values from which a column can be made.
  using Values = std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<bool>,
                              std::vector<std::string>, std::vector<std::vector<std::int64_t>>,
                              std::vector<std::vector<double>>, std::vector<Value>>;

  RowBatch() = default;
  /// Example: {{"text", texts}, {"label", labels}}
  RowBatch(std::initializer_list<std::pair<std::string, Values>> columns);
  /// Takes every column of `encoding`, so that a function of map() may return a tokenizer's result.
  RowBatch(const BatchEncoding& encoding) { set(encoding); }  // NOLINT

  /// The number of rows.
  [[nodiscard]] std::size_t size() const {
    return columns_.empty() ? 0 : columns_.front().column.size();
  }
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool contains(std::string_view name) const;

  // Return a copy of a column. Each throws UsageError for an unknown name, for another type and for
  // a missing value.
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name) const;
  [[nodiscard]] std::vector<double> numbers(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view name) const;
  /// Returns lists of words, for a tokenizer's is_split_into_words.
  [[nodiscard]] std::vector<std::vector<std::string>> text_lists(std::string_view name) const;
  /// Returns lists of integers, such as one label a word.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> integer_lists(std::string_view name) const;
  /// Returns a column of any type; values may be missing. Throws UsageError for an unknown name.
  [[nodiscard]] std::vector<Value> values(std::string_view name) const;
  [[nodiscard]] Row row(std::size_t index) const;

  // Each replaces a column or adds one.
  void set(std::string_view name, const std::vector<std::int64_t>& values);
  void set(std::string_view name, const std::vector<double>& values);
  void set(std::string_view name, const std::vector<bool>& values);
  void set(std::string_view name, const std::vector<std::string>& values);
  void set(std::string_view name, const std::vector<std::vector<std::int64_t>>& values);
  void set(std::string_view name, const std::vector<std::vector<double>>& values);
  /// The column gets the type that holds all values. Throws UsageError if no type does.
  void set(std::string_view name, const std::vector<Value>& values);
  /// Sets every column of `encoding`.
  void set(const BatchEncoding& encoding);
  void set_column(std::string_view name, const Feature& feature, detail::ColumnChunk column);

  struct NamedColumn {
    std::string name;
    Feature feature;
    detail::ColumnChunk column;
  };
  [[nodiscard]] const std::vector<NamedColumn>& columns() const { return columns_; }

 private:
  [[nodiscard]] const NamedColumn& find(std::string_view name) const;

  std::vector<NamedColumn> columns_;
};

}  // namespace accelerate
