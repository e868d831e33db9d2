// Several rows at once, as columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "accelerate/datasets/features.h"
#include "accelerate/datasets/row.h"
#include "accelerate/datasets/storage/column_chunk.h"
#include "accelerate/tokenizers/pretrained/batch_encoding.h"

namespace accelerate {

/// What a batched map() takes and gives. All columns have as many rows.
class RowBatch {
 public:
  /// What a column may be given as.
  using Values = std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<bool>,
                              std::vector<std::string>, std::vector<std::vector<std::int64_t>>,
                              std::vector<std::vector<double>>, std::vector<Value>>;

  RowBatch() = default;
  /// {{"text", texts}, {"label", labels}}
  RowBatch(std::initializer_list<std::pair<std::string, Values>> columns);
  /// Every column of `encoding`, so that a function of map() may return what a tokenizer made.
  RowBatch(const BatchEncoding& encoding) { set(encoding); }  // NOLINT

  /// Rows.
  [[nodiscard]] std::size_t size() const {
    return columns_.empty() ? 0 : columns_.front().column.size();
  }
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool contains(std::string_view name) const;

  // Copies of a column. Each throws UsageError for a name that is not there, for another type, and
  // for a value that is missing.
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name) const;
  [[nodiscard]] std::vector<double> numbers(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view name) const;
  /// Of any type.
  [[nodiscard]] std::vector<Value> values(std::string_view name) const;
  [[nodiscard]] Row row(std::size_t index) const;

  // Replace a column or add one.
  void set(std::string_view name, const std::vector<std::int64_t>& values);
  void set(std::string_view name, const std::vector<double>& values);
  void set(std::string_view name, const std::vector<bool>& values);
  void set(std::string_view name, const std::vector<std::string>& values);
  void set(std::string_view name, const std::vector<std::vector<std::int64_t>>& values);
  void set(std::string_view name, const std::vector<std::vector<double>>& values);
  /// The type is what holds all of them. Throws UsageError when none does.
  void set(std::string_view name, const std::vector<Value>& values);
  /// Every column of `encoding`.
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
