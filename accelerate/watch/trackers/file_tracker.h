// What the trackers share that write files below logging_dir / run_name.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "accelerate/watch/trackers/background_files.h"
#include "accelerate/watch/trackers/general_tracker.h"

namespace accelerate::detail {

class FileTracker : public GeneralTracker {
 public:
  [[nodiscard]] std::string name() const final { return name_; }
  [[nodiscard]] bool requires_logging_directory() const final { return true; }
  /// Makes the folder. Throws ConfigError if that is refused.
  void start() override;
  /// Writes what waits, or warns about what it could not write.
  void finish() override;

  /// logging_dir / run_name.
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 protected:
  /// Options: flush_secs (1), the seconds that a killed run can lose. Throws ConfigError if there
  /// is no logging_dir, the run name leads out of it, or an option is unknown.
  FileTracker(std::string name, const TrackerSetup& setup, BackgroundFilesOptions files);

  /// Throws UsageError before start() and after finish().
  [[nodiscard]] BackgroundFiles& files() const;
  [[nodiscard]] FileSystem& disk() const { return *files_options_.files; }
  /// Keeps other trackers out of the file `name` until finish(): two trackers that continue one
  /// file would cut off each other's rows. Throws ConfigError if another tracker has the file.
  void reserve(const std::string& name);
  /// Writes config.json beside the rows.
  void write_configuration(const ConfigMap& config);

 private:
  std::string name_;
  std::filesystem::path folder_;
  BackgroundFilesOptions files_options_;
  std::unique_ptr<BackgroundFiles> files_;
  std::unique_ptr<FolderLock> reserved_;
};

}  // namespace accelerate::detail
