// Where a project keeps what it writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace accelerate {

/// Upstream's names. With automatic_checkpoint_naming save_state() writes
/// <project_dir>/checkpoints/checkpoint_<iteration>, and load_state() reads the newest of them.
struct ProjectConfiguration {
  std::filesystem::path project_dir = {};  ///< AcceleratorOptions::project_dir says the same.
  std::filesystem::path logging_dir = {};  ///< Of trackers; project_dir when empty.
  bool automatic_checkpoint_naming = false;
  /// So many checkpoints are kept, the newest, once another one is complete; unset: all.
  std::optional<std::int64_t> total_limit = {};
  std::int64_t iteration = 0;  ///< Of the first checkpoint; load_state() sets it.
  /// Every machine has a file system of its own, and so gets checkpoints of its own: whole but for
  /// the random states of other machines' ranks. Else all share one.
  bool save_on_each_node = false;
};

/// The project's folder, by whichever of the two names it was given; empty when by neither.
/// Throws ConfigError: two folders that differ; automatic naming without a folder; total_limit
/// without automatic naming or below 1; a negative iteration.
[[nodiscard]] std::filesystem::path project_directory(const std::filesystem::path& project_dir,
                                                      const ProjectConfiguration& config);

/// The folder of what trackers write: its own, else the project's.
[[nodiscard]] std::filesystem::path logging_directory(const std::filesystem::path& project_dir,
                                                      const ProjectConfiguration& config);

}  // namespace accelerate
