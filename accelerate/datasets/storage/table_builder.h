// Rows on their way into a table, in memory or in a file of the cache.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/datasets/row.h"
#include "accelerate/datasets/storage/column_builder.h"
#include "accelerate/datasets/storage/table.h"

namespace accelerate::detail {

/// Where finished chunks go.
class ChunkSink {
 public:
  virtual ~ChunkSink() = default;
  virtual void add(const Features& features, Chunk chunk) = 0;
  [[nodiscard]] virtual std::shared_ptr<const Table> finish(const Features& features) = 0;
};

/// Keeps chunks in memory.
[[nodiscard]] std::unique_ptr<ChunkSink> sink_in_memory();

/// Gathers rows and columns into chunks of 16 MiB or 65,536 rows.
class TableBuilder {
 public:
  /// Throws UsageError for features that check_features() refuses.
  TableBuilder(Features features, std::unique_ptr<ChunkSink> sink);

  [[nodiscard]] const Features& features() const { return features_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  /// The builder of a column, for readers that fill them one by one; end_row() follows.
  [[nodiscard]] ColumnBuilder& column(std::size_t index) { return builders_[index]; }
  void end_row();
  /// Throws DataError, with the name of the column, for a value of another type, and for a row with
  /// other names than the features have.
  void append(const Row& row);
  /// Rows [first, first + count) of each column, which are of the features' kinds.
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
