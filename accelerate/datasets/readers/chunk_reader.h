// Files read in batches of rows: what loading and streaming have in common.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/datasets/features.h"
#include "accelerate/datasets/storage/table.h"

namespace accelerate {

/// Options of load_dataset() for CSV.
struct CsvOptions {
  char delimiter = ',';
  char quote = '"';
  bool has_header = true;
  /// Instead of a header, or to rename what it says.
  std::vector<std::string> column_names = {};
  std::size_t skip_rows = 0;  ///< Lines before the header.
  /// Fields that stand for nothing; those of pandas by default.
  std::vector<std::string> na_values = {"",         "#N/A", "#N/A N/A", "#NA",    "-1.#IND",
                                        "-1.#QNAN", "-NaN", "-nan",     "1.#IND", "1.#QNAN",
                                        "<NA>",     "N/A",  "NA",       "NULL",   "NaN",
                                        "None",     "n/a",  "nan",      "null"};
};

/// Options of load_dataset() for JSON.
struct JsonOptions {
  std::string field = {};  ///< The list of rows is below this key of one object.
};

namespace detail {

struct ReaderOptions {
  CsvOptions csv;
  JsonOptions json;
  /// The types of the columns; otherwise found in the first batch.
  std::optional<Features> features;
  /// A batch ends at so many rows or, in one of long rows, behind the row that has so many bytes.
  std::size_t rows_in_batch = 10'000;
  std::size_t bytes_in_batch = 8 << 20;
};

/// Reads one file from its beginning to its end.
class ChunkReader {
 public:
  virtual ~ChunkReader() = default;
  /// The columns; known before the first batch is asked for.
  [[nodiscard]] virtual const Features& features() const = 0;
  /// The next rows; nullopt at the end. Throws DataError, with file, line and column, for what is
  /// damaged or has another type.
  [[nodiscard]] virtual std::optional<Chunk> next() = 0;
};

// Each throws FileError for what cannot be opened, DataError for what is damaged.
// clang-format off
[[nodiscard]] std::unique_ptr<ChunkReader> read_csv(const std::filesystem::path& file, const ReaderOptions& options);
[[nodiscard]] std::unique_ptr<ChunkReader> read_json(const std::filesystem::path& file, const ReaderOptions& options);
[[nodiscard]] std::unique_ptr<ChunkReader> read_text(const std::filesystem::path& file, const ReaderOptions& options);
/// Throws ConfigError where there is no Arrow.
[[nodiscard]] std::unique_ptr<ChunkReader> read_parquet(const std::filesystem::path& file, const ReaderOptions& options);
// clang-format on

}  // namespace detail
}  // namespace accelerate
