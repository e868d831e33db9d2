// Builds columns of parsed JSON, without a Value for each cell.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "accelerate/transformers/datasets/features.h"
#include "accelerate/transformers/datasets/storage/column_builder.h"
#include "accelerate/transformers/datasets/storage/column_table.h"

namespace accelerate::detail {

/// How deep lists may lie within each other in a row of JSON.
inline constexpr std::size_t kDeepestJsonList = 32;

/// Takes rows that have nothing unusual. Of other rows it does not say what is wrong: they are for
/// chunk_of().
class JsonColumns {
 public:
  /// `features` must outlive this.
  explicit JsonColumns(const Features& features);

  /// Whether rows can be taken at all: class names are looked up elsewhere.
  [[nodiscard]] static bool takes(const Features& features);
  /// Appends a row; a column that it lacks is missing. Returns false for a value of another type,
  /// for an unknown key and for one that appears twice. This must not be used any more then.
  [[nodiscard]] bool append(const simdjson::dom::element& row);
  [[nodiscard]] Chunk finish();

 private:
  [[nodiscard]] std::size_t find(std::string_view key, std::size_t likely) const;

  const Features& features_;
  std::vector<ColumnBuilder> builders_;
  std::unordered_map<std::string_view, std::size_t> numbers_;
  std::vector<std::size_t> filled_;  // The number of the last row that had a value, from 1 on.
  std::size_t rows_ = 0;
};

}  // namespace accelerate::detail
