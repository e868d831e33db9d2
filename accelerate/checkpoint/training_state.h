// What a training consists of, as the files of a checkpoint: models as safetensors, everything else
// as states. It knows no Accelerator; that one fills it with what it has prepared.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/checkpoint/planned_files.h"
#include "accelerate/formats/manifest.h"
#include "accelerate/tensor/checked_state.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/named_shard.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

/// A model and its file <stem>.safetensors.
struct ModelPart {
  std::string stem;
  ModuleView view;
  /// Of the parameters that lie on several ranks, what this one has. Their leaves in `view` show
  /// names and shapes; their data is neither read nor written.
  std::vector<NamedShard> shards = {};
  /// Runs `write`, which changes the parts, and makes the new values known to all ranks.
  /// [collective] Empty: just runs it.
  std::function<void(const std::function<void()>& write)> update = {};
};

/// An object and its state file.
struct StatePart {
  std::string stem;         ///< "optimizer", "random_states_2".
  bool every_rank = false;  ///< Each rank saves one of its own, by another stem.
  std::function<StateDict()> state_dict;
  /// Throws when a state does not fit the object, which stays as it is.
  std::function<CheckedState(const StateDict&)> check;
  /// The parameters of which the object has parts and not wholes. Of its tensors under
  /// "state.<parameter>.", those that are shaped as the part are parts of tensors that are shaped
  /// as the whole.
  std::vector<NamedShard> shards = {};
};

struct TrainingState {
  std::vector<ModelPart> models;
  std::vector<StatePart> parts;
  /// Parts are saved as whole tensors in rank 0's files, fetched one by one; else each rank saves
  /// its own.
  bool whole = false;
  /// What a checkpoint holds beside the models is left alone: loading looks at them only.
  bool only_models = false;

  /// Whether ranks have parts of tensors: then every rank plans and writes, see ShardedPlan.
  [[nodiscard]] bool is_sharded() const;
};

/// The file of `model`: what is whole as tensors, this rank's parts as shards. Copies nothing.
/// Throws CheckpointError. Local.
[[nodiscard]] PlannedFile plan_model(const ModelPart& model);

/// This rank's files of `training`: what it has of its own, and with `shared` also what all ranks
/// have, which the main rank alone writes, or every rank a share of (see ShardedPlan). Asks each
/// object for its state, and copies no tensor. Throws CheckpointError, also for what an object's
/// state_dict() throws that is no Error of ours. Local.
[[nodiscard]] std::vector<PlannedFile> plan_training_state(const TrainingState& training,
                                                           bool shared);

/// A checkpoint that was read and fits a training, of which nothing has changed yet. Ranks take
/// each step once all have taken the one before: then what one of them cannot load changes nothing
/// on any, as far as the sentences below go. All throw CheckpointError that names the object, the
/// folder and what is left, with whatever was thrown nested in it; a CommError passes as it is.
/// Local. Needs what the training was described with.
class CheckedTraining {
 public:
  explicit CheckedTraining(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Compares `state` with the object of `part`. Changes nothing.
  void add(const StatePart& part, const StateDict& state);
  /// Takes note of the weights of a model, which have been compared: their names and shapes, and
  /// where they come from.
  void add_weights(const ModelPart& model, WeightReader weights);

  /// Loads, in their order, the objects that may refuse their states: those of classes of the
  /// user's. `together` runs each step on all ranks, and throws when one failed: then those before
  /// it are loaded, it itself where it did not refuse, and all else is as it was.
  void load_what_may_refuse(const std::function<void(const std::function<void()>& step)>& together);
  /// Loads all others in their order, the weights last, but not those of models with an update().
  /// Fails only where a disk or the memory does, and then objects are to be made anew.
  void load_the_rest();
  /// Loads the weights of models with an update(). As load_the_rest(). [collective] When one rank
  /// fails the models' groups end.
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

/// Reads `training` from `folder`, in shards or not: all files are read, and presence, names,
/// shapes and numbers compared. Changes nothing. Throws CheckpointError, CommError. Local. Cost:
/// the states are in memory twice until they are loaded, the weights not at all.
[[nodiscard]] CheckedTraining read_training_state(FileSystem& files,
                                                  const std::filesystem::path& folder,
                                                  const Manifest& manifest,
                                                  const TrainingState& training);

}  // namespace accelerate
