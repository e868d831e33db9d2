// State folders that save_state of Python Accelerate or Transformers' Trainer wrote, read so that
// the training goes on here.
// docs/checkpoints.md says what of them is read.
#pragma once

#include <filesystem>

#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/training_state.h"
#include "accelerate/formats/manifest.h"

namespace accelerate {

/// Whether `folder` has files of such a state, and no manifest.json.
[[nodiscard]] bool is_python_state(FileSystem& files, const std::filesystem::path& folder);

/// What is in it, as a manifest without sizes and checksums: its ranks are those whose random
/// states are there.
[[nodiscard]] Manifest python_state_manifest(FileSystem& files,
                                             const std::filesystem::path& folder);

/// Reads `training`, which was described for that manifest, from `folder`, as read_training_state
/// does from ours, and changes nothing. The position of loaders is not in such a folder: they are
/// left at the beginning of their epoch, with a warning. Nothing that is read is executed. Throws
/// CheckpointError: files missing or of an object that is not here, weights or states that do not
/// fit, what is no plain data. Local.
[[nodiscard]] CheckedTraining read_python_state(FileSystem& files,
                                                const std::filesystem::path& folder,
                                                const Manifest& manifest,
                                                const TrainingState& training);

}  // namespace accelerate
