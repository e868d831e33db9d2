// The folder of a run, in which ranks find their files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "accelerate/base/temporary_folder.h"
#include "accelerate/launch/output/output_plan.h"

namespace accelerate {

/// Makes `log_dir` if it does not exist. Does nothing if it is empty. Throws ConfigError, which
/// names --log_dir, if it cannot be written into.
void prepare_log_dir(const std::filesystem::path& log_dir);

/// Makes the folder that `plan` needs: <log_dir>/<run_id>_XXXXXX, or one for temporary files.
/// Nobody but the user may look into it. It stays if it holds what ranks wrote, or lies in log_dir.
class RunFolder {
 public:
  /// Throws ConfigError if the folder cannot be made. If it would hold nothing but error files, and
  /// there is no log_dir, no folder is made instead.
  RunFolder(const OutputPlan& plan, const std::string& run_id);

  /// The folder, an absolute path; empty if there is none.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Whether the folder outlives this object.
  [[nodiscard]] bool is_kept() const { return !path_.empty() && !temporary_; }

 private:
  std::optional<TemporaryFolder> temporary_;
  std::filesystem::path path_;
};

}  // namespace accelerate
