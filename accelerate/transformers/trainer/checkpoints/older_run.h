// The checkpoints of an older run, which a new run into the same folder drops
// (overwrite_output_dir).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/checkpoint/numbered_checkpoints.h"

namespace accelerate::detail {

inline constexpr const char* kStepPrefix = "checkpoint-";

/// Returns the checkpoints of `output_dir`, lowest step first. See numbered_checkpoints().
[[nodiscard]] std::vector<NumberedCheckpoint> step_checkpoints(
    const std::filesystem::path& output_dir);

/// The checkpoints of an older run. They stay until the new run has a checkpoint of its own, or has
/// ended without one. A note in the folder says which ones they are, so that, whenever the process is killed, the next
/// training there knows the two runs apart. Used by one rank of a disk.
class OlderRun {
 public:
  /// Does what a killed process left in `output_dir`: gives checkpoints that it put aside their
  /// names back; and, if the new run of a note has a checkpoint, drops the older run's. Throws
  /// FileError, ConfigError.
  static void settle(const std::filesystem::path& output_dir);

  /// Notes that `older` go when `run` has a checkpoint. Throws FileError.
  void note(const std::filesystem::path& output_dir, std::vector<NumberedCheckpoint> older,
            const std::string& run);
  /// Drops them; the run has just saved the checkpoint of `step`, or has ended without one. What
  /// cannot be removed is a warning.
  void drop(std::optional<std::int64_t> step);

 private:
  std::filesystem::path output_dir_;
  std::vector<NumberedCheckpoint> older_;
};

}  // namespace accelerate::detail
