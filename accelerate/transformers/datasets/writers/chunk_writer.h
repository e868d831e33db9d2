// Writes batches of rows to a file in another program's format.
#pragma once

#include <string>
#include <vector>

#include "accelerate/transformers/datasets/features.h"
#include "accelerate/transformers/datasets/storage/column_chunk.h"

namespace accelerate {
class WritableFile;

namespace detail {

/// The columns of a file to write.
struct WriterOptions {
  Features features;
  std::string metadata;  ///< Describes the features to Python `datasets`: metadata_of().
};

/// Writes one file from its beginning to its end. Throws what the file throws.
class ChunkWriter {
 public:
  virtual ~ChunkWriter() = default;
  /// Adds rows: one column for each feature, of its kind. All columns have the same length, above
  /// 0. Throws DataError, with the column, for values that the format cannot hold.
  virtual void add(const std::vector<ColumnChunk>& columns) = 0;
  /// Writes what follows the last row. No other call may follow.
  virtual void finish() = 0;
};

}  // namespace detail
}  // namespace accelerate
