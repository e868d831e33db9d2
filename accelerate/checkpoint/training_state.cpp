#include "accelerate/checkpoint/training_state.h"

#include <set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/checkpoint/sharded_files.h"
#include "accelerate/checkpoint/state_file.h"
#include "accelerate/formats/shards/shard_files.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {
namespace {

std::string weights_file(const ModelPart& model) {
  return model.stem + ".safetensors";
}

// That the checkpoint has a file for every object, and an object for every file of the same kinds:
// a model, optimizer, … more or less is another training.
void check_presence(const Manifest& manifest, const TrainingState& training) {
  std::set<std::string> saved, expected;
  for (const auto& file : manifest.files) {
    const auto shard = ShardFileName::parse(file.name);
    saved.insert(shard ? shard->stem + ".safetensors" : file.name);
  }
  for (const auto& model : training.models) expected.insert(weights_file(model));
  for (const auto& part : training.parts) expected.insert(part.stem + ".json");
  const auto last_rank = "random_states_" + std::to_string(manifest.num_processes - 1) + ".json";
  if (manifest.ranks.empty() && !saved.contains(last_rank))
    throw CheckpointError("the checkpoint is said to be of " +
                          std::to_string(manifest.num_processes) + " processes, but has no " +
                          last_rank);
  std::vector<std::string> absent;
  for (const auto& name : expected)
    if (!saved.contains(name)) absent.push_back(name);
  if (!absent.empty())
    throw CheckpointError("the checkpoint has no " + join(absent, ", ") +
                          ": it was saved by a training that had prepared or registered less");
  for (const char* kind : {"model", "optimizer", "scheduler", "dataloader", "custom_checkpoint"}) {
    for (int i = 0;; ++i) {
      const auto stem = kind + (i > 0 ? "_" + std::to_string(i) : std::string());
      const auto name = stem + (std::string(kind) == "model" ? ".safetensors" : ".json");
      if (!saved.contains(name)) break;
      if (!expected.contains(name))
        throw CheckpointError("the checkpoint has " + name +
                              ", for which there is no object: prepare and register everything, in "
                              "the order in which it was saved, before load_state");
    }
  }
}

PlannedFile plan_model(const ModelPart& model) {
  auto tensors = without_duplicates(state_dict(model.view));
  try {
    (void)tensor_specs(tensors);  // Refuses here what could not be written.
  } catch (const Error&) {
    throw_with_context<CheckpointError>("cannot save '" + model.stem + "'");
  }
  return {.name = weights_file(model), .tensors = std::move(tensors)};
}

// What an object throws is its own: an Error of ours says enough, anything else gets a name.
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

constexpr const char* kWhatIsLeft =
    " What was loaded before it stays loaded: make all objects anew before you train on or load "
    "another checkpoint";

void copy_weights_of(const ModelPart& model, const ShardedTensors& stored,
                     const std::filesystem::path& folder) {
  try {
    copy_weights(model.view, stored.outlines(),
                 [&](const std::string& name) { return stored.read(name); });
  } catch (const CommError&) {
    throw;
  } catch (const std::exception&) {
    throw_with_context<CheckpointError>("the weights of '" + model.stem + "' in " +
                                        folder.string() + " could not be copied." + kWhatIsLeft);
  }
}

}  // namespace

void load_part(const StatePart& part, const StateDict& state, const std::filesystem::path& folder) {
  try {
    part.load_state_dict(state);
  } catch (const CommError&) {
    throw;
  } catch (const std::exception&) {
    throw_with_context<CheckpointError>(
        "the state of '" + part.stem + "' in " + folder.string() +
        " could not be loaded. The models keep the weights they had." + kWhatIsLeft);
  }
}

std::vector<PlannedFile> plan_training_state(const TrainingState& training, bool shared) {
  std::vector<PlannedFile> planned;
  if (shared)
    for (const auto& model : training.models) planned.push_back(plan_model(model));
  for (const auto& part : training.parts) {
    if (!shared && !part.every_rank) continue;
    for (auto& file : plan_state(part.stem, state_of(part))) {
      file.one_rank = part.every_rank;
      planned.push_back(std::move(file));
    }
  }
  return planned;
}

void read_training_state(FileSystem& files, const std::filesystem::path& folder,
                         const Manifest& manifest, const TrainingState& training) {
  check_presence(manifest, training);
  std::vector<ShardedTensors> weights;
  for (const auto& model : training.models) {
    weights.emplace_back(model.stem,
                         ShardCatalogue::open(tensor_files(folder, manifest, model.stem), files));
    const auto report = compare_weights(model.view, weights.back().outlines());
    if (!report.fits())
      throw CheckpointError("the weights of '" + model.stem + "' in " + folder.string() +
                            " do not fit the model " + model.view.class_name + ": " +
                            report.describe());
  }
  std::vector<StateDict> states;
  for (const auto& part : training.parts)
    states.push_back(
        read_state_file(files, folder, part.stem, tensor_files(folder, manifest, part.stem)));
  for (std::size_t i = 0; i < states.size(); ++i) load_part(training.parts[i], states[i], folder);
  // Last: what an object finds wrong with its state leaves the models as they were.
  for (std::size_t i = 0; i < weights.size(); ++i)
    copy_weights_of(training.models[i], weights[i], folder);
}

}  // namespace accelerate
