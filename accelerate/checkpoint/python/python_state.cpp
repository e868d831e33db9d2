#include "accelerate/checkpoint/python/python_state.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/checkpoint/python/python_deepspeed.h"
#include "accelerate/formats/torch_archive/torch_archive.h"
#include "accelerate/tensor/stored_values.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {
namespace {

using Path = std::filesystem::path;
using Names = std::set<std::string>;

const Logger& logger() {
  static const Logger instance = get_logger("accelerate.checkpoint");
  return instance;
}

// --- which file is whose -------------------------------------------------------------------------

// "optimizer_1" is number 1 of the kind "optimizer"; "optimizer" is number 0.
struct Stem {
  std::string kind;
  int number = 0;
};

Stem parse_stem(const std::string& stem) {
  const auto line = stem.rfind('_');
  if (line == std::string::npos) return {stem};
  const auto number = parse_int(stem.substr(line + 1));
  if (!number || *number < 0 || *number > 1'000'000) return {stem};
  return {stem.substr(0, line), static_cast<int>(*number)};
}

std::string numbered(const std::string& name, int number, const std::string& extension) {
  return name + (number == 0 ? "" : "_" + std::to_string(number)) + extension;
}

// Returns the first file or folder of a model or optimizer that FSDP saved; "" if there is none.
std::string fsdp_name(std::string_view kind, int number, const Names& names) {
  const std::string plain(kind), stem = plain + "_" + std::to_string(number);
  for (const auto& name :
       {stem, stem + "_rank0.bin", number == 0 ? plain + "_rank0.bin" : std::string(),
        kind == kFsdpModel ? numbered(plain, number, ".bin") : std::string()}) {
    if (names.contains(name)) return name;
  }
  // Files of ranks without the first one: who opens them says so.
  for (const auto& name : names)
    if (name.starts_with(stem + "_rank") || (number == 0 && name.starts_with(plain + "_rank")))
      return name;
  return "";
}

// Returns the Python file that holds the optimizer with this number, or the name that it should
// have. The Trainer saves with FSDP as Accelerate does.
std::string optimizer_file(int number, const Names& names) {
  const auto name = numbered("optimizer", number, is_of_python_trainer(names) ? ".pt" : ".bin");
  if (names.contains(name)) return name;
  if (const auto by_fsdp = fsdp_name(kFsdpOptimizer, number, names); !by_fsdp.empty())
    return by_fsdp;
  const auto full = numbered("optimizer", number, ".bin");
  return names.contains(full) ? full : name;
}

// Returns the Python file that holds the object with this stem; "" if none does. The Trainer's
// random states are pickled objects, which are not read.
std::string python_file(const Stem& stem, const Names& names) {
  if (stem.kind == "optimizer") return optimizer_file(stem.number, names);
  if (stem.kind == "scheduler")
    return numbered(stem.kind, stem.number, is_of_python_trainer(names) ? ".pt" : ".bin");
  if (stem.kind == "scaler") return "scaler.pt";
  if (stem.kind == "custom_checkpoint" || stem.kind == "random_states")
    return stem.kind + "_" + std::to_string(stem.number) + ".pkl";
  return "";
}

// Returns the weights file of a model; "" if it exists in neither form.
std::string model_file(const Names& names, int number) {
  for (const auto& name :
       {numbered("model", number, ".safetensors"), numbered("pytorch_model", number, ".bin")}) {
    if (names.contains(name)) return name;
  }
  return fsdp_name(kFsdpModel, number, names);
}

// --- presence ------------------------------------------------------------------------------------

// Whether DeepSpeed saved the object with this stem.
bool is_deepspeeds(const Stem& stem, const PythonDeepSpeed& deepspeed) {
  if (stem.kind == "model" || stem.kind == "optimizer") return stem.number < deepspeed.count();
  if (stem.kind == "scheduler") return deepspeed.has_schedule(stem.number);
  return stem.kind == "scaler" && deepspeed.count() > 0;
}

[[noreturn]] void refuse_absent(const std::vector<std::string>& absent) {
  throw CheckpointError("it has no " + join(absent, ", ") +
                            ": it was saved by a training that had prepared or registered less",
                        error_name::kOtherObjects);
}

// Throws if there are files of more objects than are here.
void check_no_more(const Names& names, const TrainingState& training,
                   const PythonDeepSpeed& deepspeed) {
  std::map<std::string, int> here{{"model", static_cast<int>(training.models.size())}};
  for (const auto& part : training.parts) {
    const Stem stem = parse_stem(part.stem);
    here[stem.kind] = std::max(here[stem.kind], stem.number + 1);
  }
  const auto check = [&](const std::string& name, bool found) {
    if (found)
      throw CheckpointError(
          "it has " + name +
              ", for which there is no object: prepare and register everything, in "
              "the order in which it was saved, before load_state",
          error_name::kOtherObjects);
  };
  if (here["model"] < deepspeed.count())
    check(deepspeed.folder(here["model"]).filename().string(), true);
  if (const auto model = model_file(names, here["model"]); !model.empty() && deepspeed.count() == 0)
    check(model, true);
  for (const char* kind : {"optimizer", "scheduler", "custom_checkpoint"}) {
    const auto file = python_file({kind, here[kind]}, names);
    check(file, names.contains(file));
  }
}

void check_presence(const Names& names, const TrainingState& training, LoadScope scope,
                    const PythonDeepSpeed& deepspeed) {
  std::vector<std::string> absent;
  for (const auto& model : training.models) {
    const int number = parse_stem(model.stem).number;
    if (model_file(names, number).empty() && number >= deepspeed.count())
      absent.push_back(numbered("model", number, ".safetensors"));
  }
  for (const auto& part : training.parts) {
    const Stem stem = parse_stem(part.stem);
    const std::string file = python_file(stem, names);
    // Without random states the training keeps its present ones.
    if (stem.kind != "random_states" && !file.empty() && !names.contains(file) &&
        !is_deepspeeds(stem, deepspeed))
      absent.push_back(file);
  }
  if (!absent.empty()) refuse_absent(absent);
  if (scope == LoadScope::everything) check_no_more(names, training, deepspeed);
}

// --- states --------------------------------------------------------------------------------------

const TorchValue& need(const TorchArchive& archive, const char* key) {
  if (const auto* value = archive.value().find(key)) return *value;
  throw CheckpointError("'" + archive.path().string() + "' has no '" + key + "'; it holds " +
                        archive.value().describe());
}

// Reads the states of LibTorch's generators. The generators of Python and numpy have no counterpart
// here.
StateDict random_states(const TorchArchive& archive) {
  logger().debug("the random states of Python and numpy in " + archive.path().string() +
                 " are left out");
  StateDict state = {{"cpu", state_of(need(archive, "torch_manual_seed"), archive.content(),
                                      "torch_manual_seed")}};
  if (const auto* cuda = archive.value().find("torch_cuda_manual_seed"))
    state["cuda"] = state_of(*cuda, archive.content(), "torch_cuda_manual_seed");
  return state;
}

// Copies the tensors, since registered objects keep what they are given and must not depend on the
// file.
StateDict custom_state(const TorchArchive& archive, const std::string& name) {
  StateDict state = state_of(archive.value(), archive.content(), name);
  state.for_each_tensor([](const std::string&, at::Tensor& tensor) { tensor = tensor.clone(); });
  return state;
}

StateDict read_part(const TorchArchive& archive, const Stem& stem, const StatePart& part) {
  if (stem.kind == "optimizer")
    return optimizer_state_of_python(saved_optimizer_of(archive.value(), archive.content()),
                                     part.state_dict());
  if (stem.kind == "scheduler")
    return scheduler_state_of_python(archive.value(), archive.content());
  if (stem.kind == "random_states") return random_states(archive);
  if (stem.kind == "custom_checkpoint") return custom_state(archive, part.stem);
  return state_of(archive.value(), archive.content(), part.stem);
}

// Reads how far the training was: its micro-batches, and the number in an automatic folder name.
StateDict progress(FileSystem& files, const Path& folder, const Names& names) {
  StateDict state = {{"step", 0}};
  if (names.contains("random_states_0.pkl")) {
    const auto archive = TorchArchive::open(folder / "random_states_0.pkl", files);
    const auto* step = archive.value().find("step");
    if (step != nullptr) state["step"] = state_of(*step, archive.content(), "step");
  }
  const Stem name = parse_stem(folder.filename().string());
  if (name.kind == "checkpoint") state["iteration"] = name.number + 1;
  return state;
}

// Returns what FSDP saved in several files; nullopt if the object is no optimizer, or lies in one
// file.
std::optional<StateDict> read_sharded(FileSystem& files, const Path& folder,
                                      const std::string& file, const StatePart& part) {
  const Stem stem = parse_stem(part.stem);
  if (stem.kind != "optimizer" || file != fsdp_name(kFsdpOptimizer, stem.number, {file}))
    return std::nullopt;
  const auto found = fsdp_files_in(folder, kFsdpOptimizer, stem.number, files);
  if (!found)
    throw CheckpointError((folder / file).string() +
                              " has no .metadata: it was not copied, or the save was interrupted",
                          error_name::kCheckpointUnfinished);
  return optimizer_state_of_python(saved_optimizer_of(*found, StateShards(part.shards), files),
                                   part.state_dict());
}

// Returns what DeepSpeed saved of an object; nullopt if it saved nothing of it. A schedule of
// PyTorch's has a file of its own.
std::optional<StateDict> read_deepspeed(const PythonDeepSpeed& deepspeed, const Names& names,
                                        const StatePart& part) {
  const Stem stem = parse_stem(part.stem);
  if (!is_deepspeeds(stem, deepspeed) || names.contains(python_file(stem, names)))
    return std::nullopt;
  try {
    if (stem.kind == "optimizer") return deepspeed.optimizer(stem.number, part);
    if (stem.kind == "scheduler") return deepspeed.schedule(stem.number, part);
    return deepspeed.scaler(part);
  } catch (const Error&) {
    throw_with_context<CheckpointError>("the state of '" + part.stem + "' in " +
                                        deepspeed.folder(0).string() + " does not fit");
  }
}

// Returns nullopt if the folder has no state for this object.
std::optional<StateDict> read_state(FileSystem& files, const Path& folder, const Names& names,
                                    const StatePart& part) {
  if (part.stem == "accelerator") return progress(files, folder, names);
  const Stem stem = parse_stem(part.stem);
  const std::string file = python_file(stem, names);
  if (stem.kind == "random_states" && !names.contains(file)) {
    logger().warning(folder.string() +
                     " has no random states: the generators continue from where they are");
    return std::nullopt;
  }
  if (file.empty()) return std::nullopt;
  std::optional<TorchArchive> archive;
  try {
    if (auto sharded = read_sharded(files, folder, file, part)) return sharded;
    archive = TorchArchive::open(folder / file, files);
    return read_part(*archive, stem, part);
  } catch (const Error&) {
    if (stem.kind != "optimizer" && !archive) throw;
    throw_with_context<CheckpointError>("the state of '" + part.stem + "' in " +
                                        (folder / file).string() + " does not fit");
  }
}

bool all_begin_with(const std::vector<NamedTensor>& tensors, std::string_view prefix) {
  return !tensors.empty() && std::ranges::all_of(tensors, [&](const NamedTensor& tensor) {
    return tensor.name.starts_with(prefix);
  });
}

// Removes the prefixes that Python wrappers put before names: DistributedDataParallel,
// torch.compile.
WeightReader without_wrappers(WeightReader weights, const ModuleView& model) {
  const auto own = state_dict(model);
  std::string wrappers;
  for (int layer = 0; layer < 2; ++layer) {
    for (const std::string_view prefix : {"module.", "_orig_mod."}) {
      if (!all_begin_with(weights.outlines, prefix) || all_begin_with(own, prefix)) continue;
      for (auto& weight : weights.outlines) weight.name.erase(0, prefix.size());
      wrappers += prefix;
    }
  }
  if (wrappers.empty()) return weights;
  weights.read = [read = weights.read, wrappers](const std::string& name) {
    return read(wrappers + name);
  };
  weights.read_range = [read_range = weights.read_range, wrappers](
                           const std::string& name, std::int64_t begin, std::int64_t numel) {
    return read_range(wrappers + name, begin, numel);
  };
  return weights;
}

WeightReader open_weights(FileSystem& files, const Path& folder, const std::string& file,
                          const ModelPart& model) {
  const int number = parse_stem(model.stem).number;
  if (!file.starts_with(kFsdpModel)) return map_weights(folder / file, files);
  if (const auto found = fsdp_files_in(folder, kFsdpModel, number, files))
    return weights_of_fsdp(*found, files, model.view);
  throw CheckpointError((folder / file).string() +
                            " has no .metadata: it was not copied, or the save was interrupted",
                        error_name::kCheckpointUnfinished);
}

const StatePart* optimizer_of(const TrainingState& training, int number) {
  for (const auto& part : training.parts)
    if (const Stem stem = parse_stem(part.stem); stem.kind == "optimizer" && stem.number == number)
      return &part;
  return nullptr;
}

// Returns weights that fit the model. `path`: where they lie.
WeightReader fitting_weights(const Path& path, WeightReader opened, const ModelPart& model) {
  auto weights = without_wrappers(std::move(opened), model.view);
  if (const auto report = compare_weights(model.view, weights.outlines); !report.fits())
    throw CheckpointError(path.string() + " does not fit the model " + model.view.class_name +
                              ": " + report.describe(),
                          error_name::kOtherModel);
  return weights;
}

WeightReader read_weights(FileSystem& files, const Path& folder, const Names& names,
                          const ModelPart& model) {
  const int number = parse_stem(model.stem).number;
  const std::string file = model_file(names, number);
  return fitting_weights(folder / file, open_weights(files, folder, file, model), model);
}

// Does not warn for a Trainer's folder: the Trainer learns from trainer_state.json where to continue.
void warn_of_loaders(const Path& folder, const TrainingState& training, const Names& names) {
  if (is_of_python_trainer(names)) return;
  for (const auto& part : training.parts) {
    if (parse_stem(part.stem).kind != "dataloader") continue;
    logger().warning(folder.string() +
                     " is of Python Accelerate, which does not save where its loaders are: they "
                     "begin their epoch again. skip_first_batches() continues inside one");
    return;
  }
}

}  // namespace

PythonState list_python_state(FileSystem& files, const Path& folder) {
  Manifest manifest{.num_processes = 0, .files = {}};
  const Names names = python_names_in(files, folder);
  for (const auto& name : names) manifest.files.push_back({.name = name});
  while (names.contains(python_file({"random_states", manifest.num_processes}, names)))
    ++manifest.num_processes;
  return {folder, std::move(manifest)};
}

CheckedTraining read_python_state(FileSystem& files, const PythonState& saved,
                                  const TrainingState& training, LoadScope scope) {
  const auto& [folder, manifest] = saved;
  Names names;
  for (const auto& file : manifest.files) names.insert(file.name);
  const auto deepspeed = PythonDeepSpeed::open(files, folder);
  try {
    check_presence(names, training, scope, deepspeed);
  } catch (const CheckpointError&) {
    throw_with_context<CheckpointError>("the state of Python Accelerate in " + folder.string() +
                                        " cannot be loaded");
  }
  CheckedTraining checked(folder);
  for (const auto& model : training.models) {
    const int number = parse_stem(model.stem).number;
    checked.add_weights(
        model,
        number < deepspeed.count()
            ? fitting_weights(deepspeed.folder(number),
                              deepspeed.weights(number, optimizer_of(training, number)), model)
            : read_weights(files, folder, names, model));
  }
  warn_of_loaders(folder, training, names);
  for (const auto& part : training.parts) {
    auto state = read_deepspeed(deepspeed, names, part);
    if (!state) state = read_state(files, folder, names, part);
    if (state) checked.add(part, *state);
  }
  return checked;
}

}  // namespace accelerate
