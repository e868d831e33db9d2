// Writes datasets as Parquet files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/transformers/datasets/features.h"
#include "accelerate/transformers/datasets/storage/column_chunk.h"

namespace accelerate {
class Dataset;
class WritableFile;

namespace detail {

/// Writes `rows` rows of `dataset` from `first_row` on, with all columns, as Python `datasets` 5
/// does: Snappy compression, page boundaries that depend on content, features in the metadata of
/// the schema. The file appears whole or not at all, and replaces an existing file. Throws
/// UsageError for rows that do not exist, FileError for a missing folder or a full disk. Throws
/// ConfigError in a build without Arrow. Throws DataError when a column has a row of 2^31 or more
/// bytes of text or list entries. Cost: memory for one row group, about 16 MiB before compression.
void write_parquet(const Dataset& dataset, std::size_t first_row, std::size_t rows,
                   const std::filesystem::path& file);

// What follows is for the plugin library, which calls Arrow.

/// Returns, byte for byte, the JSON that Python `datasets` 5 keeps under the key "huggingface" of
/// an Arrow schema: {"info": {"features": {"text": {"dtype": "string", "_type": "Value"}}}}.
[[nodiscard]] std::string metadata_of(const Features& features);

/// The columns of a file to write.
struct WriterOptions {
  Features features;
  std::string metadata;  ///< metadata_of() the features.
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
