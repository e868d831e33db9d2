// Reads state folders that save_state of Python Accelerate or the Trainer of Transformers wrote, so
// that the training continues here. docs/checkpoints.md says what is read of them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/training_state.h"
#include "accelerate/formats/manifest.h"
#include "accelerate/formats/torch_archive/torch_value.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

// Converts scheduler.bin of Python Accelerate to a state of ours.

/// Converts the state_dict() of a PyTorch schedule. Leaves out what only Python can use: functions,
/// None, the phases that OneCycleLR recomputes. A Counter becomes the sorted list of its elements,
/// and nested states become lists. Throws CheckpointError if `saved` is not a dict, or for a value
/// that no schedule has, naming its key.
[[nodiscard]] StateDict scheduler_state_of_python(
    const TorchValue& saved, const std::shared_ptr<const FileContent>& content);

// Converts optimizer.bin of Python Accelerate, and optimizer.pt of Transformers, to a state of
// ours.

/// Converts the state_dict() of a Python optimizer to our keys. Parameters go by name instead of by
/// number, and counters become whole numbers. Options that ours lack are left out if they do not
/// change a step. `own` is the optimizer_state_dict of the optimizer that continues from it. It
/// gives the class and the names of the groups' parameters, which must be as many, in the same
/// order. Tensors are views of `content`. Throws CheckpointError for a state of another class or
/// other groups, and for an option or entry that the class here does not know. The error names the
/// class, group, parameter or key. Known classes: SGD, Adam, AdamW, Adagrad, RMSprop, LBFGS,
/// Adafactor (of Transformers), Lion (of bitsandbytes, 32 bits) and ScheduleFreeAdamW (of the
/// package schedulefree).
[[nodiscard]] StateDict optimizer_state_of_python(const TorchValue& saved,
                                                  const std::shared_ptr<const FileContent>& content,
                                                  const StateDict& own);

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
