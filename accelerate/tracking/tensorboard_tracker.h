// Writes TensorBoard event files, as `accelerate.tracking.TensorBoardTracker` does, natively.
//
// Below logging_dir/run_name: events.out.tfevents.… with scalars, texts, images and histograms; a
// folder <name>_<part> for each part of Scalars; a folder <time> with the hyperparameters, as
// events and as hparams.yml. docs/tracking.md says more.
#pragma once

#include <memory>

#include "accelerate/tracking/background_files.h"
#include "accelerate/tracking/tracker.h"

namespace accelerate {

class TensorBoardTracker final : public GeneralTracker {
 public:
  /// Options: flush_secs (1), how much a killed run can lose. Throws ConfigError: no logging_dir,
  /// a name that leads out of it, an unknown option.
  explicit TensorBoardTracker(const TrackerSetup& setup, detail::BackgroundFilesOptions files = {});
  ~TensorBoardTracker() override;

  [[nodiscard]] std::string name() const override { return "tensorboard"; }
  [[nodiscard]] bool requires_logging_directory() const override { return true; }
  void start() override;
  void store_init_configuration(const TrackerConfig& config) override;
  void log(const TrackerValues& values, std::optional<std::int64_t> step) override;
  void log_images(const TrackerImages& images, std::optional<std::int64_t> step) override;
  /// A table in Markdown, under Text.
  void log_table(const std::string& name, const TrackerTable& table,
                 std::optional<std::int64_t> step) override;
  void finish() override;

  /// logging_dir / run_name.
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  const std::filesystem::path& event_file(const std::filesystem::path& folder);
  void add(std::string record) { add(folder_, std::move(record)); }
  void add(const std::filesystem::path& folder, std::string record);
  void log_value(const std::string& tag, const TrackerValue& value, double now, std::int64_t step);
  void log_scalars(const std::string& tag, const Scalars& values, double now, std::int64_t step);

  std::filesystem::path folder_;
  detail::BackgroundFilesOptions files_options_;
  std::unique_ptr<detail::BackgroundFiles> files_;
  std::map<std::filesystem::path, std::filesystem::path> event_files_;  // By folder.
};

}  // namespace accelerate
