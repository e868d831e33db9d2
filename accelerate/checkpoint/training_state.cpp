#include "accelerate/checkpoint/training_state.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/checkpoint/sharded_files.h"
#include "accelerate/checkpoint/state_file.h"
#include "accelerate/checkpoint/state_shards.h"
#include "accelerate/formats/shards/shard_files.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {
namespace {

constexpr const char* kModelsAlone =
    ". It was saved with only_models and holds no optimizer, schedule or random state: load it "
    "with only_models";

std::string weights_file(const ModelPart& model) {
  return model.stem + ".safetensors";
}

// Checks that the checkpoint has a file for every object, and an object for every file of these
// kinds. With a model or optimizer more or less, it belongs to another training.
void check_presence(const Manifest& manifest, const TrainingState& training, LoadScope scope) {
  std::set<std::string> saved, expected;
  for (const auto& file : manifest.files) {
    const auto shard = ShardFileName::parse(file.name);
    saved.insert(shard ? shard->stem + ".safetensors" : file.name);
  }
  for (const auto& model : training.models) expected.insert(weights_file(model));
  for (const auto& part : training.parts) expected.insert(part.stem + ".json");
  const auto last_rank = "random_states_" + std::to_string(manifest.num_processes - 1) + ".json";
  if (scope == LoadScope::everything && manifest.ranks.empty() && !saved.contains(last_rank))
    throw CheckpointError("the checkpoint is said to be of " +
                              std::to_string(manifest.num_processes) + " processes, but has no " +
                              last_rank + (saved.contains("accelerator.json") ? "" : kModelsAlone),
                          error_name::kCheckpointUnfinished);
  std::vector<std::string> absent;
  for (const auto& name : expected)
    if (!saved.contains(name)) absent.push_back(name);
  if (!absent.empty())
    throw CheckpointError("the checkpoint has no " + join(absent, ", ") +
                              ": it was saved by a training that had prepared or registered less",
                          error_name::kOtherObjects);
  if (scope == LoadScope::models) return;
  for (const char* kind : {"model", "optimizer", "scheduler", "dataloader", "custom_checkpoint"}) {
    for (int i = 0;; ++i) {
      const auto stem = kind + (i > 0 ? "_" + std::to_string(i) : std::string());
      const auto name = stem + (std::string(kind) == "model" ? ".safetensors" : ".json");
      if (!saved.contains(name)) break;
      if (!expected.contains(name))
        throw CheckpointError(
            "the checkpoint has " + name +
                ", for which there is no object: prepare and register everything, in "
                "the order in which it was saved, before load_state",
            error_name::kOtherObjects);
    }
  }
}

// An Error of ours says enough; any other exception of an object gets a sentence with its name.
StateDict state_of(const StatePart& part) {
  try {
    return part.state_dict();
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    throw_with_context<CheckpointError>("cannot save '" + part.stem +
                                        "': its state_dict() has failed");
  }
}

// Turns whatever `step` throws into a CheckpointError that says `sentence`. A CommError passes
// unchanged.
void saying(const std::string& sentence, const std::function<void()>& step) {
  try {
    step();
  } catch (const CommError&) {
    throw;
  } catch (const std::exception&) {
    throw_with_context<CheckpointError>(sentence);
  }
}

}  // namespace

void CheckedTraining::add(const StatePart& part, const StateDict& state) {
  const std::string what = "the state of '" + part.stem + "' in " + folder_.string();
  saying(what + " does not fit. Nothing was changed", [&] {
    StateDict mine = state;
    StateShards(part.shards).cut(mine);
    parts_.push_back({what, part.check(mine)});
  });
}

void CheckedTraining::add_weights(const ModelPart& model, WeightReader weights) {
  const std::string what = "the weights of '" + model.stem + "' in " + folder_.string();
  std::function<void()> copy = [view = model.view, shards = model.shards,
                                weights = std::move(weights)] {
    copy_weights(view, weights, shards);
  };
  if (model.shards.empty()) {
    weights_.push_back({what, {std::move(copy)}});
  } else {
    updates_.push_back({what, {[update = model.update, copy = std::move(copy)] { update(copy); }}});
  }
}

// All ranks have the objects that may refuse, so they take these steps together. Other parts may
// differ between ranks, such as saved gradients.
void CheckedTraining::load_what_may_refuse(
    const std::function<void(const std::function<void()>& step)>& together) {
  for (const auto& part : parts_) {
    if (!part.state.may_refuse) continue;
    together([&part] {
      saying(part.what +
                 " could not be loaded. Your own objects before it stay loaded; it is loaded on "
                 "the ranks where it did not refuse; everything else is unchanged",
             part.state.load);
    });
  }
}

void CheckedTraining::load_all(const std::vector<Step>& steps) {
  for (const auto& [what, state] : steps) {
    if (state.may_refuse) continue;
    saying(what +
               " could not be loaded. What was loaded before it stays loaded: make all objects "
               "again before you train on or load another checkpoint",
           state.load);
  }
}

void CheckedTraining::load_the_rest() {
  load_all(parts_);
  load_all(weights_);
}

void CheckedTraining::load_updated() {
  load_all(updates_);
}

bool TrainingState::is_sharded() const {
  const auto has_parts = [](const auto& part) { return !part.shards.empty(); };
  return std::ranges::any_of(models, has_parts) || std::ranges::any_of(parts, has_parts);
}

PlannedFile plan_model(const ModelPart& model) {
  PlannedFile file{.name = weights_file(model), .is_model = true};
  const auto in_parts = shards_by_leaf(model.view, model.shards);
  for (auto& item : without_duplicates(state_dict(model.view))) {
    if (!in_parts.contains(item.tensor.unsafeGetTensorImpl()))
      file.tensors.push_back(std::move(item));
  }
  try {
    (void)tensor_specs(file.tensors);  // Refuses here what could not be written.
    for (const auto& shard : model.shards) {
      (void)tensor_specs({{shard.name, shard.local}});
      for (auto& tile : tiles_of(shard, shard.name, shard.local))
        file.shards.push_back(std::move(tile));
    }
  } catch (const Error&) {
    throw_with_context<CheckpointError>("cannot save '" + model.stem + "'");
  }
  return file;
}

std::vector<PlannedFile> plan_training_state(const TrainingState& training, RankFiles wanted) {
  std::vector<PlannedFile> planned;
  if (wanted == RankFiles::own_and_common)
    for (const auto& model : training.models) planned.push_back(plan_model(model));
  for (const auto& part : training.parts) {
    if (wanted == RankFiles::own && !part.every_rank) continue;
    const StateShards shards(part.shards);
    for (auto& file : plan_state(part.stem, state_of(part))) {
      file.one_rank = part.every_rank;
      shards.divide(file);
      planned.push_back(std::move(file));
    }
  }
  return planned;
}

CheckedTraining read_training_state(FileSystem& files, const CheckedCheckpoint& checkpoint,
                                    const TrainingState& training, LoadScope scope) {
  const auto& [folder, manifest] = checkpoint;
  check_presence(manifest, training, scope);
  CheckedTraining checked(folder);
  for (const auto& model : training.models) {
    const auto stored = std::make_shared<ShardedTensors>(
        model.stem, ShardCatalogue::open(tensor_files(folder, manifest, model.stem), files));
    const auto report = compare_weights(model.view, stored->outlines());
    if (!report.fits())
      throw CheckpointError("the weights of '" + model.stem + "' in " + folder.string() +
                                " do not fit the model " + model.view.class_name + ": " +
                                report.describe(),
                            error_name::kOtherModel);
    checked.add_weights(model, reader_of(stored));
  }
  for (const auto& part : training.parts)
    checked.add(part,
                read_state_file(files, folder, part.stem, tensor_files(folder, manifest, part.stem),
                                StateShards(part.shards)));
  return checked;
}

}  // namespace accelerate
