// Batches of rows on their way into a file of another program's format.
#pragma once

#include <string>
#include <vector>

#include "accelerate/datasets/features.h"
#include "accelerate/datasets/storage/column_chunk.h"

namespace accelerate {
class WritableFile;

namespace detail {

/// What the columns of a file are.
struct WriterOptions {
  Features features;
  std::string metadata;  ///< Of the features, as Python `datasets` writes them: metadata_of().
};

/// Writes one file from its beginning to its end. Throws what the file throws.
class ChunkWriter {
 public:
  virtual ~ChunkWriter() = default;
  /// Adds rows: a column for each feature and of its kind, all of one length above 0. Throws
  /// DataError, with the column, for what the format cannot hold.
  virtual void add(const std::vector<ColumnChunk>& columns) = 0;
  /// Writes what stands behind the last row. No other call follows.
  virtual void finish() = 0;
};

}  // namespace detail
}  // namespace accelerate
