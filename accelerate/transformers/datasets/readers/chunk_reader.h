// Reads files in batches of rows, for loading and for streaming.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/datasets/features.h"
#include "accelerate/transformers/datasets/storage/column_table.h"

namespace accelerate {

/// Options of load_dataset() for CSV.
struct CsvOptions {
  char delimiter = ',';
  char quote = '"';
  bool has_header = true;
  /// Used instead of a header, or to rename its columns.
  std::vector<std::string> column_names = {};
  std::size_t skip_rows = 0;  ///< Lines before the header.
  /// Fields that mean a missing value. Default: the list of pandas.
  std::vector<std::string> na_values = {"",         "#N/A", "#N/A N/A", "#NA",    "-1.#IND",
                                        "-1.#QNAN", "-NaN", "-nan",     "1.#IND", "1.#QNAN",
                                        "<NA>",     "N/A",  "NA",       "NULL",   "NaN",
                                        "None",     "n/a",  "nan",      "null"};
};

/// Options of load_dataset() for JSON.
struct JsonOptions {
  std::string field = {};  ///< The key of an object that holds the list of rows; empty: none.
};

namespace detail {

struct ReaderOptions {
  CsvOptions csv;
  JsonOptions json;
  /// The types of the columns. Default: found in the first batch.
  std::optional<Features> features;
  /// A batch ends after this many rows, or after the row that reaches this many bytes.
  std::size_t rows_in_batch = 10'000;
  std::size_t bytes_in_batch = 8 << 20;
};

/// Reads one file from its beginning to its end.
class ChunkReader {
 public:
  virtual ~ChunkReader() = default;
  /// The types of the columns. Known before the first call of next().
  [[nodiscard]] virtual const Features& features() const = 0;
  /// Returns the next rows; nullopt at the end. Throws DataError, with file, line and column, for
  /// damaged data and for values of another type.
  [[nodiscard]] virtual std::optional<Chunk> next() = 0;
};

// Each throws FileError for a file that cannot be opened, and DataError for a damaged file.
// clang-format off
[[nodiscard]] std::unique_ptr<ChunkReader> read_csv(const std::filesystem::path& file, const ReaderOptions& options);
[[nodiscard]] std::unique_ptr<ChunkReader> read_json(const std::filesystem::path& file, const ReaderOptions& options);
[[nodiscard]] std::unique_ptr<ChunkReader> read_text(const std::filesystem::path& file, const ReaderOptions& options);
/// Throws ConfigError in a build without Arrow.
[[nodiscard]] std::unique_ptr<ChunkReader> read_parquet(const std::filesystem::path& file, const ReaderOptions& options);
// clang-format on

}  // namespace detail
}  // namespace accelerate
