// The rows behind a dataset: chunks of columns.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/datasets/features.h"
#include "accelerate/datasets/storage/column_chunk.h"

namespace accelerate::detail {

/// Where rows are kept, if not in memory.
class TableStorage {
 public:
  virtual ~TableStorage() = default;
  /// Throws DataError when they are no longer there. Cost: a system call.
  virtual void check() const = 0;
};

/// Rows that stand together: a column for each feature of the table, all of one length.
struct Chunk {
  std::vector<ColumnChunk> columns = {};
  std::size_t rows = 0;
  std::shared_ptr<const TableStorage> storage = nullptr;
};

/// Immutable; several threads may read one.
class Table {
 public:
  /// `fingerprint` says what is in it: equal ones have equal rows.
  Table(Features features, std::vector<Chunk> chunks, std::string fingerprint);

  [[nodiscard]] const Features& features() const { return features_; }
  [[nodiscard]] std::size_t rows() const { return starts_.back(); }
  [[nodiscard]] const std::vector<Chunk>& chunks() const { return chunks_; }
  [[nodiscard]] const std::string& fingerprint() const { return fingerprint_; }

  struct Place {
    std::size_t chunk, row;
  };
  /// Throws DataError when the row is in a file that was cut short. Cost: a binary search among the
  /// chunks, and a system call for a file.
  [[nodiscard]] Place place_of(std::size_t row) const;

 private:
  Features features_;
  std::vector<Chunk> chunks_;
  /// The first row of each chunk, and the number of all.
  std::vector<std::size_t> starts_{0};
  std::string fingerprint_;
};

/// 32 hexadecimal digits for `parts`, in their order. Cost: 10 GB/s.
[[nodiscard]] std::string fingerprint_of(const std::vector<std::string_view>& parts);
/// The same of all that is in `chunks`.
[[nodiscard]] std::string fingerprint_of(const Features& features,
                                         const std::vector<Chunk>& chunks);

}  // namespace accelerate::detail
