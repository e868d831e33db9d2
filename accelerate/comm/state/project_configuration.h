// Where a project keeps what it writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace accelerate {

/// Upstream's names. With automatic_checkpoint_naming save_state() writes
/// <project_dir>/checkpoints/checkpoint_<iteration>, and load_state() reads the newest checkpoint.
struct ProjectConfiguration {
  std::filesystem::path project_dir = {};  ///< Same as AcceleratorOptions::project_dir.
  std::filesystem::path logging_dir = {};  ///< Where trackers write; empty: project_dir.
  bool automatic_checkpoint_naming = false;
  /// How many of the newest checkpoints stay when another one is complete; unset: all.
  std::optional<std::int64_t> total_limit = {};
  /// Number of the first checkpoint. With automatic naming load_state() moves past those on disk.
  std::int64_t iteration = 0;
  /// true: every machine has its own file system and gets its own checkpoints. They lack only the
  /// random states of other machines' ranks. false: all machines share one file system.
  bool save_on_each_node = false;
};

/// Returns the project's folder, from `project_dir` or `config.project_dir`; empty when both are
/// empty. Throws ConfigError: two folders that differ; automatic naming without a folder;
/// total_limit without automatic naming or below 1; a negative iteration.
[[nodiscard]] std::filesystem::path project_directory(const std::filesystem::path& project_dir,
                                                      const ProjectConfiguration& config);

/// Returns the folder in which trackers write: config.logging_dir, else the project's folder.
/// Throws as project_directory.
[[nodiscard]] std::filesystem::path logging_directory(const std::filesystem::path& project_dir,
                                                      const ProjectConfiguration& config);

}  // namespace accelerate
