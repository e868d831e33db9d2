// Writes TensorBoard event files natively, as `accelerate.tracking.TensorBoardTracker` does.
//
// Below logging_dir/run_name: events.out.tfevents.… with scalars, texts, images and histograms; a
// folder <name>_<part> for each part of Scalars; a folder <time> with the hyperparameters, as
// events and as hparams.yml. See docs/tracking.md.
#pragma once

#include <map>

#include "accelerate/watch/trackers/file_tracker.h"

namespace accelerate {

class TensorBoardTracker final : public detail::FileTracker {
 public:
  /// Options: flush_secs (1), the seconds that a killed run can lose. Throws ConfigError if there
  /// is no logging_dir, the run name leads out of it, or an option is unknown.
  explicit TensorBoardTracker(const TrackerSetup& setup, detail::BackgroundFilesOptions files = {})
      : FileTracker("tensorboard", setup, files) {}

  void start() override;
  void store_init_configuration(const ConfigMap& config) override;
  void log(const TrackerValues& values, std::optional<std::int64_t> step) override;
  void log_images(const TrackerImages& images, std::optional<std::int64_t> step) override;
  /// Logs a table in Markdown, under Text.
  void log_table(const std::string& name, const TrackerTable& table,
                 std::optional<std::int64_t> step) override;

 private:
  const std::filesystem::path& event_file(const std::filesystem::path& place);
  void add(std::string record) { add(folder(), std::move(record)); }
  void add(const std::filesystem::path& place, std::string record);
  void log_value(const std::string& tag, const TrackerValue& value, double now, std::int64_t step);
  void log_scalars(const std::string& tag, const Scalars& values, double now, std::int64_t step);

  std::map<std::filesystem::path, std::filesystem::path> event_files_;  // By folder.
};

}  // namespace accelerate
