// Finds the files of a checkpoint that DeepSpeed's save_checkpoint or ds_to_universal wrote.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"

namespace accelerate {

/// The files of one tag. Of ranks, every rank from 0 is there.
struct DeepSpeedFiles {
  std::filesystem::path folder;  ///< The tag's folder.
  /// Of the whole model, or one a rank (ZeRO 3).
  std::vector<std::filesystem::path> models;
  /// One a rank. Empty under ZeRO 0 and in a universal checkpoint.
  std::vector<std::filesystem::path> optimizers;
  /// Whether `folder`/zero holds one folder a parameter.
  bool universal = false;

  /// Whether `models` has one file a rank.
  [[nodiscard]] bool model_by_rank() const;
};

/// Whether `folder` holds a checkpoint of DeepSpeed: it is the folder of a tag, or holds one.
[[nodiscard]] bool holds_deepspeed(FileSystem& files, const std::filesystem::path& folder);

/// Finds the files of `tag` in `folder`. If `tag` is empty, it is the tag that `folder`/latest or
/// latest_universal names, or else the only one there. `folder` may also be the folder of a tag.
/// Throws CheckpointError, with names, for an unknown tag, for missing ranks, and for files of
/// tensor, pipeline or expert parallelism.
[[nodiscard]] DeepSpeedFiles find_deepspeed_files(FileSystem& files,
                                                  const std::filesystem::path& folder,
                                                  const std::string& tag = {});

}  // namespace accelerate
