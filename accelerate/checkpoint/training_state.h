// What a training consists of, as the files of a checkpoint: models as safetensors, everything else
// as states. It knows no Accelerator; that one fills it with what it has prepared.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/planned_files.h"
#include "accelerate/formats/manifest.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

/// A model and its file <stem>.safetensors.
struct ModelPart {
  std::string stem;
  ModuleView view;
};

/// An object and its state file.
struct StatePart {
  std::string stem;         ///< "optimizer", "random_states_2".
  bool every_rank = false;  ///< Each rank saves one of its own, by another stem.
  std::function<StateDict()> state_dict;
  std::function<void(const StateDict&)> load_state_dict;
};

struct TrainingState {
  std::vector<ModelPart> models;
  std::vector<StatePart> parts;
};

/// This rank's files of `training`: what it has of its own, and with `shared` also what all ranks
/// have, which the main rank alone writes, or every rank a share of (see ShardedPlan). Asks each
/// object for its state, and copies no tensor. Throws CheckpointError. Local.
[[nodiscard]] std::vector<PlannedFile> plan_training_state(const TrainingState& training,
                                                           bool shared);

/// Reads `training` from `folder`, in shards or not. All files are read, and names, shapes and
/// presence compared, before the first object changes; what an object itself finds wrong with its
/// state may leave those before it loaded. Throws CheckpointError. Local.
void read_training_state(FileSystem& files, const std::filesystem::path& folder,
                         const Manifest& manifest, const TrainingState& training);

}  // namespace accelerate
