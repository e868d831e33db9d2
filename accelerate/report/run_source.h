// Finds what a folder tells about a run, and follows it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "accelerate/report/run_history.h"

namespace accelerate {

/// The history of one run, from run_log.jsonl, else from trainer_state.json, else from that of the
/// newest checkpoint-N folder.
class RunSource {
 public:
  /// `run`: the folder of a run, a checkpoint-N folder, or one of the files. Reads what is there.
  /// Throws ConfigError that names what was looked for when there is none of it or the file is
  /// damaged, FileError when it cannot be read.
  explicit RunSource(const std::filesystem::path& run);
  ~RunSource();
  RunSource(const RunSource&) = delete;
  RunSource& operator=(const RunSource&) = delete;

  /// Reads on; true when the history changed. A state that is just being written is left for the
  /// next time.
  bool refresh();

  [[nodiscard]] const RunHistory& history() const;
  /// The name of the run's folder.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The folder for what is made from it.
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  /// The file that is read.
  [[nodiscard]] const std::filesystem::path& file() const;

 private:
  class Reader;
  class LogFile;
  class StateFile;

  static std::unique_ptr<Reader> open_file(const std::filesystem::path& file);
  static std::unique_ptr<Reader> open_folder(const std::filesystem::path& folder);

  std::filesystem::path folder_;
  std::string name_;
  std::unique_ptr<Reader> reader_;
};

}  // namespace accelerate
