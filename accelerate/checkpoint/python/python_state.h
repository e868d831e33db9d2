// Reads state folders that save_state of Python Accelerate or the Trainer of Transformers wrote, so
// that the training continues here. docs/checkpoints.md says what is read of them.
#pragma once

#include <filesystem>
#include <string>

#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/training_state.h"
#include "accelerate/formats/manifest.h"

namespace accelerate {

/// Whether `folder` has files of such a state, and no manifest.json.
[[nodiscard]] bool is_python_state(FileSystem& files, const std::filesystem::path& folder);

/// Whether `folder` is a checkpoint of Python's Trainer and holds nothing else: only files with the
/// names that a Trainer, a model and a tokenizer write. `other`: set to the first name that is not
/// such a name, if there is one.
[[nodiscard]] bool is_python_checkpoint_alone(FileSystem& files,
                                              const std::filesystem::path& folder,
                                              std::string& other);

/// Returns the content of `folder` as a manifest without sizes and checksums. The number of its
/// ranks is the number of random states in the folder.
[[nodiscard]] Manifest python_state_manifest(FileSystem& files,
                                             const std::filesystem::path& folder);

/// Reads `training`, which was described for `manifest`, from `folder`, as read_training_state
/// reads a folder of ours. Changes nothing. Such a folder does not hold the position of loaders:
/// they begin their epoch anew, with a warning. Nothing that is read is executed. Throws
/// CheckpointError if files are missing, belong to an object that is not here or are not plain
/// data, or if weights or states do not fit. Local.
[[nodiscard]] CheckedTraining read_python_state(FileSystem& files,
                                                const std::filesystem::path& folder,
                                                const Manifest& manifest,
                                                const TrainingState& training);

}  // namespace accelerate
