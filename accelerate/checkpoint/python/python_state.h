// Reads state folders that save_state of Python Accelerate or the Trainer of Transformers wrote, so
// that the training continues here. docs/checkpoints.md says what is read of them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/python/python_folder.h"
#include "accelerate/checkpoint/python/python_objects.h"
#include "accelerate/checkpoint/state_shards.h"
#include "accelerate/checkpoint/training_state.h"
#include "accelerate/formats/manifest.h"
#include "accelerate/formats/shards/fsdp_files.h"
#include "accelerate/formats/torch_archive/torch_value.h"
#include "accelerate/tensor/state_dict.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {

/// Returns the optimizer that FSDP saved in several files. Tensors are read into new memory; of a
/// tensor that has a part in `shards` only the part.
[[nodiscard]] SavedOptimizer saved_optimizer_of(const FsdpFiles& found, const StateShards& shards,
                                                FileSystem& files);

/// Returns the weights that FSDP saved. Throws CheckpointError. Cost: tables of contents are read.
[[nodiscard]] WeightReader weights_of_fsdp(const FsdpFiles& found, FileSystem& files,
                                           const ModuleView& model);

/// A state folder that Python wrote.
struct PythonState {
  std::filesystem::path folder;
  /// Lists the files without sizes and checksums. The number of ranks is the number of random
  /// states in the folder.
  Manifest manifest;
};
[[nodiscard]] PythonState list_python_state(FileSystem& files, const std::filesystem::path& folder);

/// Reads `training`, which was described for the manifest of `saved`, as read_training_state reads
/// a folder of ours. Changes nothing. Such a folder does not hold the position of loaders:
/// they begin their epoch again, with a warning. Nothing that is read is executed. Throws
/// CheckpointError if files are missing, belong to an object that is not here or are not plain
/// data, or if weights or states do not fit. Local.
[[nodiscard]] CheckedTraining read_python_state(FileSystem& files, const PythonState& saved,
                                                const TrainingState& training,
                                                LoadScope scope = LoadScope::everything);

}  // namespace accelerate
