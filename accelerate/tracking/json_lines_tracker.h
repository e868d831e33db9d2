// One JSON object a line, for scripts and for `pandas.read_json(path, lines=True)`.
//
// logging_dir/run_name/metrics.jsonl:
//   {"_step":7,"_time":1763735645.12,"loss":0.5,"accuracy":{"train":0.9,"test":0.8}}
// config.json and images/ lie beside it. docs/tracking.md has every form.
#pragma once

#include "accelerate/tracking/file_tracker.h"

namespace accelerate {

class JsonLinesTracker final : public detail::FileTracker {
 public:
  /// Options: flush_secs (1). Throws ConfigError as TensorBoardTracker does.
  explicit JsonLinesTracker(const TrackerSetup& setup, detail::BackgroundFilesOptions files = {})
      : FileTracker("jsonl", setup, files) {}

  /// A file that is there is continued; a torn last line of a killed run is cut off. Throws
  /// ConfigError when another run writes to it.
  void start() override;
  void store_init_configuration(const TrackerConfig& config) override;
  /// NaN and infinities are the strings "NaN", "Infinity", "-Infinity": JSON has no numbers for
  /// them. Throws UsageError for values called _step or _time.
  void log(const TrackerValues& values, std::optional<std::int64_t> step) override;
  void log_images(const TrackerImages& images, std::optional<std::int64_t> step) override;
  void log_table(const std::string& name, const TrackerTable& table,
                 std::optional<std::int64_t> step) override;

 private:
  std::size_t images_ = 0;  // So many were logged: no two share a file.
};

}  // namespace accelerate
