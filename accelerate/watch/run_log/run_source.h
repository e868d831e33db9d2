// Finds the files of a folder that describe a run, and follows them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "accelerate/watch/run_log/run_history.h"

namespace accelerate {

// Reads trainer_state.json of Transformers' Trainer as the history of a run.

/// Returns the history in the file at `path`: its log_history, and the checkpoint-N folders of its
/// run. They lie beside the file, or beside its folder when that is a checkpoint-N folder itself.
/// The file has no times and no arguments. Throws FileError when the file cannot be read or has
/// more than 256 MiB, ConfigError when it is not such a file.
[[nodiscard]] RunHistory read_trainer_state(const std::filesystem::path& path);

/// Returns the N of "checkpoint-N"; -1 for other names.
[[nodiscard]] std::int64_t checkpoint_step(const std::string& name);

/// The history of one run. It is read from run_log.jsonl, else from trainer_state.json, else from
/// the trainer_state.json of the newest checkpoint-N folder.
class RunSource {
 public:
  /// Opens `run`, the folder of a run, a checkpoint-N folder, or one of the files, and reads it.
  /// Throws ConfigError when none of the files is there, with their names, or when the file is
  /// damaged. Throws FileError when the file cannot be read.
  explicit RunSource(const std::filesystem::path& run);
  ~RunSource();
  RunSource(const RunSource&) = delete;
  RunSource& operator=(const RunSource&) = delete;

  /// Reads what is new. Returns true when the history changed. A state file that is being written
  /// is left for the next call.
  bool refresh();

  [[nodiscard]] const RunHistory& history() const;
  /// The name of the run's folder.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The folder for files that are made from the run.
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
