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
/// object for its state, and copies no tensor. Throws CheckpointError, also for what an object's
/// state_dict() throws that is no Error of ours. Local.
[[nodiscard]] std::vector<PlannedFile> plan_training_state(const TrainingState& training,
                                                           bool shared);

/// Gives `state` to `part`. Throws CheckpointError that names the part, the folder and what is
/// left, with whatever load_state_dict() has thrown nested in it; a CommError passes as it is.
/// Local.
void load_part(const StatePart& part, const StateDict& state, const std::filesystem::path& folder);

/// Reads `training` from `folder`, in shards or not. All files are read, and names, shapes and
/// presence compared, before the first object changes. Then the parts are loaded in their order,
/// and the weights of the models last: when an object itself finds something wrong with its state,
/// the models have the weights they had, but the parts before it stay loaded, and all objects are
/// to be made anew. Throws CheckpointError, CommError. Local.
void read_training_state(FileSystem& files, const std::filesystem::path& folder,
                         const Manifest& manifest, const TrainingState& training);

}  // namespace accelerate
