// One table of everything that was logged, for spreadsheets and for `pandas.read_csv`.
//
// logging_dir/run_name/metrics.csv has the columns step and time, and one per value. Each call of
// log() adds a row. A new value gets a column at the end, which is empty in earlier rows.
// config.json lies beside it. docs/tracking.md describes every form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/watch/trackers/file_tracker.h"

namespace accelerate::detail {

// Comma-separated values as in RFC 4180, with "\n" as line end.

/// Returns a cell for `text`, quoted where a reader would otherwise misread it. An empty text
/// becomes `""`, so that it differs from a cell without a value.
[[nodiscard]] std::string csv_text(std::string_view text);

/// Returns the cells of the first line of `text`, without quotes.
[[nodiscard]] std::vector<std::string> csv_header(std::string_view text);

/// Returns the length of the whole rows in `text`: up to the last line end outside quotes.
[[nodiscard]] std::size_t csv_whole_rows(std::string_view text);

/// Returns `text` with its first row replaced by `header`, a row with its line end, and with
/// `new_columns` empty cells at the end of every other row.
[[nodiscard]] std::string csv_widen(std::string_view text, const std::string& header,
                                    std::size_t new_columns);

}  // namespace accelerate::detail

namespace accelerate {

class CsvTracker final : public detail::FileTracker {
 public:
  /// Options: flush_secs (1). Throws ConfigError as TensorBoardTracker does.
  explicit CsvTracker(const TrackerSetup& setup, detail::BackgroundFilesOptions files = {})
      : FileTracker("csv", setup, files) {}

  /// Continues an existing file with its columns; cuts off a torn last row of a killed run. Throws
  /// ConfigError if another run writes to the file, or if it is not a file of this tracker.
  void start() override;
  void store_init_configuration(const ConfigMap& config) override;
  /// Scalars get a column <name>/<part> per part, a histogram gets <name>/min, /mean and /max.
  /// Numbers that are not finite are written as nan, inf, -inf. Throws UsageError for values called
  /// step or time. Cost: a new column rewrites the file, on the writing thread.
  void log(const TrackerValues& values, std::optional<std::int64_t> step) override;

 private:
  using Cells = std::vector<std::pair<std::string, std::string>>;  // Column, cell.
  [[nodiscard]] static Cells cells_of(const TrackerValues& values);
  [[nodiscard]] bool continue_file();
  void add_columns(const Cells& cells);
  [[nodiscard]] std::string header() const;  // The first row, with its line end.

  std::vector<std::string> columns_;
};

}  // namespace accelerate
