// The rows behind a dataset: chunks of columns.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/transformers/datasets/features.h"
#include "accelerate/transformers/datasets/storage/column_chunk.h"

namespace accelerate::detail {

/// The file that holds rows, if they are not in memory.
class TableStorage {
 public:
  virtual ~TableStorage() = default;
  /// Throws DataError when the rows are no longer there. Cost: a system call.
  virtual void check() const = 0;
};

/// Consecutive rows: one column for each feature of the table, all of the same length.
struct Chunk {
  std::vector<ColumnChunk> columns = {};
  std::size_t rows = 0;
  std::shared_ptr<const TableStorage> storage = nullptr;
};

/// All rows of a dataset's source, in chunks. Immutable; several threads may read a table.
class Table {
 public:
  /// `fingerprint` identifies the content: tables with equal fingerprints have equal rows.
  Table(Features features, std::vector<Chunk> chunks, std::string fingerprint);

  [[nodiscard]] const Features& features() const { return features_; }
  [[nodiscard]] std::size_t rows() const { return starts_.back(); }
  [[nodiscard]] const std::vector<Chunk>& chunks() const { return chunks_; }
  [[nodiscard]] const std::string& fingerprint() const { return fingerprint_; }

  struct Place {
    std::size_t chunk, row;
  };
  /// Returns the chunk that holds `row`, and the place of the row in it. Throws DataError when the
  /// row is in a file that was cut short. Cost: a binary search among the chunks, and a system call
  /// for a file.
  [[nodiscard]] Place place_of(std::size_t row) const;

 private:
  Features features_;
  std::vector<Chunk> chunks_;
  /// The first row of each chunk; last, the number of all rows.
  std::vector<std::size_t> starts_{0};
  std::string fingerprint_;
};

/// Returns 32 hexadecimal digits, a hash of `parts` in their order. Speed: 10 GB/s.
[[nodiscard]] std::string fingerprint_of(const std::vector<std::string_view>& parts);
/// Returns such a hash of the features and of all values in `chunks`.
[[nodiscard]] std::string fingerprint_of(const Features& features,
                                         const std::vector<Chunk>& chunks);

}  // namespace accelerate::detail
