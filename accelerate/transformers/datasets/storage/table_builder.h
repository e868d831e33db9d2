// Builds a table of rows, in memory or in a file of the cache.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/datasets/row.h"
#include "accelerate/transformers/datasets/storage/column_builder.h"
#include "accelerate/transformers/datasets/storage/column_table.h"

namespace accelerate::detail {

/// Receives finished chunks.
class ChunkSink {
 public:
  virtual ~ChunkSink() = default;
  virtual void add(const Features& features, Chunk chunk) = 0;
  [[nodiscard]] virtual std::shared_ptr<const Table> finish(const Features& features) = 0;
};

/// Returns a sink that keeps chunks in memory.
[[nodiscard]] std::unique_ptr<ChunkSink> sink_in_memory();

/// Collects rows and columns into chunks of 16 MiB or 65,536 rows.
class TableBuilder {
 public:
  /// Throws UsageError for features that check_features() refuses.
  TableBuilder(Features features, std::unique_ptr<ChunkSink> sink);

  [[nodiscard]] const Features& features() const { return features_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  /// The builder of a column, for readers that fill columns one by one. Call end_row() after each
  /// row.
  [[nodiscard]] ColumnBuilder& column(std::size_t index) { return builders_[index]; }
  void end_row();
  /// Throws DataError, with the name of the column, for a value of another type, and for a row
  /// whose names differ from the features.
  void append(const Row& row);
  /// Appends rows [first, first + count) of each column. The columns must have the kinds of the
  /// features.
  void append(const std::vector<ColumnChunk>& columns, std::size_t first, std::size_t count);
  [[nodiscard]] std::shared_ptr<const Table> finish();

 private:
  void flush();

  Features features_;
  std::unique_ptr<ChunkSink> sink_;
  std::vector<ColumnBuilder> builders_;
  std::size_t rows_ = 0;
};

}  // namespace accelerate::detail
