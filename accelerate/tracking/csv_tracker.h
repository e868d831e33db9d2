// One table of everything that was logged, for spreadsheets and for `pandas.read_csv`.
//
// logging_dir/run_name/metrics.csv: columns step, time and a value each, a row for each call of
// log(). A value that is new gets a column at the end, and earlier rows an empty cell there.
// config.json lies beside it. docs/tracking.md has every form.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "accelerate/tracking/file_tracker.h"

namespace accelerate {

class CsvTracker final : public detail::FileTracker {
 public:
  /// Options: flush_secs (1). Throws ConfigError as TensorBoardTracker does.
  explicit CsvTracker(const TrackerSetup& setup, detail::BackgroundFilesOptions files = {})
      : FileTracker("csv", setup, files) {}

  /// A file that is there is continued with its columns; a torn last row of a killed run is cut
  /// off. Throws ConfigError when another run writes to it, and when it is not of this tracker.
  void start() override;
  void store_init_configuration(const TrackerConfig& config) override;
  /// Scalars have a column <name>/<part> for each part, a histogram <name>/min, /mean, /max.
  /// Numbers that are none are nan, inf, -inf. Throws UsageError for values called step or time.
  /// Cost: a new column rewrites the file, on the writing thread.
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
