// One JSON object per line, for scripts and for `pandas.read_json(path, lines=True)`.
//
// logging_dir/run_name/metrics.jsonl:
//   {"_step":7,"_time":1763735645.12,"loss":0.5,"accuracy":{"train":0.9,"test":0.8}}
// config.json and images/ lie beside it. docs/tracking.md describes every form.
#pragma once

#include "accelerate/watch/trackers/file_tracker.h"

namespace accelerate {

class JsonLinesTracker final : public detail::FileTracker {
 public:
  /// Options: flush_secs (1). Throws ConfigError as TensorBoardTracker does.
  explicit JsonLinesTracker(const TrackerSetup& setup, detail::BackgroundFilesOptions files = {})
      : FileTracker("jsonl", setup, files) {}

  /// Continues an existing file; cuts off a torn last line of a killed run. Throws ConfigError if
  /// another run writes to the file.
  void start() override;
  void store_init_configuration(const ConfigMap& config) override;
  /// Writes NaN and infinities as the strings "NaN", "Infinity", "-Infinity", since JSON has no
  /// numbers for them. Throws UsageError for values called _step or _time.
  void log(const TrackerValues& values, std::optional<std::int64_t> step) override;
  void log_images(const TrackerImages& images, std::optional<std::int64_t> step) override;
  void log_table(const std::string& name, const TrackerTable& table,
                 std::optional<std::int64_t> step) override;

 private:
  std::size_t images_ = 0;  // Number of images logged, so that no two share a file.
};

}  // namespace accelerate
