// What a training consists of, as the files of a checkpoint: models as safetensors, everything else
// as states. It knows no Accelerator; the Accelerator fills it with what it has prepared.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/checkpoint_folder.h"
#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/checkpoint/planned_files.h"
#include "accelerate/tensor/checked_state.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/named_shard.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

/// A model and its file <stem>.safetensors.
struct ModelPart {
  std::string stem;
  ModuleView view;
  /// This rank's parts of the parameters that are spread over several ranks. Their leaves in `view`
  /// give names and shapes; their data is neither read nor written.
  std::vector<NamedShard> shards = {};
  /// Runs `write`, which changes the parts, and makes the new values known to all ranks.
  /// [collective] Must be set if there are parts.
  std::function<void(const std::function<void()>& write)> update = {};
};

/// An object and its state file.
struct StatePart {
  std::string stem;         ///< "optimizer", "random_states_2".
  bool every_rank = false;  ///< Each rank saves one, under its own stem.
  std::function<StateDict()> state_dict;
  /// Throws if a state does not fit the object. Does not change the object.
  std::function<CheckedState(const StateDict&)> check;
  /// The parameters that the object has only parts of. A tensor of its state under
  /// "state.<parameter>." that has the part's shape is a part of a tensor that has the whole's
  /// shape.
  std::vector<NamedShard> shards = {};
};

/// How tensors are saved that are spread over several ranks.
enum class SpreadTensors {
  in_shards,  ///< Each rank saves its parts.
  whole,      ///< Rank 0 saves them in its files, and fetches them one by one.
};

struct TrainingState {
  std::vector<ModelPart> models;
  std::vector<StatePart> parts;
  SpreadTensors saves = SpreadTensors::in_shards;

  /// Whether ranks have parts of tensors. Then every rank plans and writes; see ShardedPlan.
  [[nodiscard]] bool is_sharded() const;
};

/// Plans the file of `model`: whole tensors as tensors, this rank's parts as shards. Copies
/// nothing. Throws CheckpointError. Local.
[[nodiscard]] PlannedFile plan_model(const ModelPart& model);

/// Which files a rank plans: of the state that it has separately, and of what all ranks have. One
/// rank alone writes what all have, or each rank a share of it (see ShardedPlan).
enum class RankFiles { own, own_and_common };

/// Plans this rank's files of `training`. Asks each object for its state, and copies no tensor.
/// Throws CheckpointError, also if an object's state_dict() throws something other than an Error of
/// ours. Local.
[[nodiscard]] std::vector<PlannedFile> plan_training_state(const TrainingState& training,
                                                           RankFiles wanted);

/// A checkpoint that was read and fits a training; nothing of the training has changed yet. Ranks
/// take each step once all have taken the step before. So if one rank cannot load, nothing changes
/// on any rank, with the exceptions below. All steps throw a CheckpointError that names the object,
/// the folder and what remains, with the cause nested in it; a CommError passes unchanged. Local.
/// The objects that the training was described with must exist.
class CheckedTraining {
 public:
  explicit CheckedTraining(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Compares `state` with the object of `part`. Changes nothing.
  void add(const StatePart& part, const StateDict& state);
  /// Records the weights of a model: where they come from, and their names and shapes, which have
  /// already been compared.
  void add_weights(const ModelPart& model, WeightReader weights);

  /// Loads, in order, the objects that may refuse their states: objects of user-defined classes.
  /// `together` runs each step on all ranks, and throws if a rank failed. Then the objects before
  /// it are loaded, and it is loaded on the ranks where it did not refuse. Everything else is
  /// unchanged.
  void load_what_may_refuse(const std::function<void(const std::function<void()>& step)>& together);
  /// Loads all other objects in order and then the weights, except the weights of models in parts.
  /// Fails only if a disk or the memory fails; then all objects must be made again.
  void load_the_rest();
  /// Loads the weights of models in parts. Fails as load_the_rest(). [collective] If one rank
  /// fails, the models' groups end.
  void load_updated();

 private:
  struct Step {
    std::string what;
    CheckedState state;
  };

  static void load_all(const std::vector<Step>& steps);

  std::filesystem::path folder_;
  std::vector<Step> parts_, weights_, updates_;
};

/// What is loaded of a checkpoint. With `models`, the rest of its files is ignored.
enum class LoadScope { everything, models };

/// Reads all files of `training` from `checkpoint`, in shards or not, and compares presence, names,
/// shapes and numbers. Changes nothing. Throws CheckpointError, CommError. Local. Cost: until they
/// are loaded, the states are in memory twice; the weights are not in memory.
[[nodiscard]] CheckedTraining read_training_state(FileSystem& files,
                                                  const CheckedCheckpoint& checkpoint,
                                                  const TrainingState& training,
                                                  LoadScope scope = LoadScope::everything);

}  // namespace accelerate
