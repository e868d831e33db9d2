// Models and optimizers that FSDP of Python Accelerate saved in several files.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/checkpoint/python/python_state.h"
#include "accelerate/checkpoint/sharded_files.h"
#include "accelerate/checkpoint/state_file.h"
#include "accelerate/tensor/stored_values.h"

namespace accelerate {
namespace {

// Keeps all files of a state open.
class AllContents : public FileContent {
 public:
  explicit AllContents(const ShardedState& state) : files_(state.tensors.files()) {
    for (const auto& [name, saved] : state.values) more_.push_back(saved.content);
  }
  [[nodiscard]] std::span<const std::byte> bytes() const override { return {}; }

 private:
  std::vector<ShardFile> files_;
  std::vector<std::shared_ptr<const FileContent>> more_;
};

// The optimizer in a ShardedState. Its keys are "state", parameter, field, …, and "param_groups",
// number, option.
class ShardedOptimizer {
 public:
  ShardedOptimizer(ShardedState state, StateShards shards)
      : content_(std::make_shared<const AllContents>(state)),
        state_(std::move(state)),
        tensors_("model", state_.tensors),
        shards_(std::move(shards)) {
    for (const auto& outline : tensors_.outlines()) outlines_.emplace(outline.name, outline);
    for (const auto& [name, path] : state_.paths)
      if (path.size() >= 3 && path[0] == "state") fields_[path[1]].push_back(&name);
  }

  [[nodiscard]] std::vector<TorchValue> groups() const {
    std::map<std::int64_t, TorchDict> groups;
    for (const auto& [name, path] : state_.paths) {
      if (path.size() != 3 || path[0] != "param_groups") continue;
      const auto number = parse_int(path[1]);
      if (!number || *number < 0)
        throw CheckpointError("'" + name + "' is of no parameter group with a number");
      groups[*number].entries.push_back({{path[2]}, option(name)});
    }
    std::vector<TorchValue> list;
    for (auto& [number, dict] : groups) {
      if (number != static_cast<std::int64_t>(list.size()))
        throw CheckpointError("there is no parameter group " + std::to_string(list.size()));
      list.push_back({std::move(dict)});
    }
    return list;
  }

  [[nodiscard]] std::optional<StateDict> state_of(const TorchValue& key,
                                                  const std::string& parameter) const {
    const auto* text = key.as<std::string>();
    const auto* number = key.as<std::int64_t>();
    const auto found =
        fields_.find(text != nullptr ? *text : std::to_string(number == nullptr ? -1 : *number));
    if (found == fields_.end()) return std::nullopt;
    StateDict all = StateDict::Dict();
    for (const std::string* name : found->second) {
      const auto& path = state_.paths.at(*name);
      StateDict* at = &all;
      for (std::size_t i = 2; i + 1 < path.size(); ++i) {
        if ((*at)[path[i]].is_null()) (*at)[path[i]] = StateDict::Dict();
        at = &(*at)[path[i]];
      }
      (*at)[path.back()] = value(*name, "state." + parameter + "." + path.back());
    }
    return all;
  }

  [[nodiscard]] const std::shared_ptr<const FileContent>& content() const { return content_; }

 private:
  // A rate may be a tensor of one element.
  [[nodiscard]] TorchValue option(const std::string& name) const {
    const auto outline = outlines_.find(name);
    if (outline == outlines_.end()) return state_.values.at(name).value;
    if (outline->second.tensor.numel() != 1)
      throw CheckpointError("the option '" + name + "' is " +
                            StateDict(outline->second.tensor).describe() + ", no number");
    return {tensors_.load(name).item<double>()};
  }

  [[nodiscard]] StateDict value(const std::string& name, const std::string& place) const {
    const auto outline = outlines_.find(name);
    if (outline != outlines_.end()) return load_part(tensors_, outline->second, place, shards_);
    const auto& saved = state_.values.at(name);
    return accelerate::state_of(saved.value, saved.content, place);
  }

  std::shared_ptr<const FileContent> content_;
  ShardedState state_;
  ShardedTensors tensors_;
  StateShards shards_;
  std::map<std::string, NamedTensor> outlines_;
  std::map<std::string, std::vector<const std::string*>> fields_;  // By parameter.
};

}  // namespace

SavedOptimizer saved_optimizer_of(const FsdpFiles& found, const StateShards& shards,
                                  FileSystem& files) {
  const auto optimizer =
      std::make_shared<const ShardedOptimizer>(open_fsdp_files(found, files), shards);
  return {optimizer->groups(), optimizer->content(),
          [optimizer](const TorchValue& key, const std::string& name) {
            return optimizer->state_of(key, name);
          }};
}

WeightReader weights_of_fsdp(const FsdpFiles& found, FileSystem& files, const ModuleView& model) {
  std::vector<detail::KnownShape> shapes;
  for (const auto& [name, parameter] : without_duplicates(model.parameters))
    shapes.push_back({name, parameter.sizes().vec()});
  detail::FlatParameters flat(std::move(shapes));
  return reader_of(std::make_shared<ShardedTensors>("model", open_fsdp_model(found, files, &flat)));
}

}  // namespace accelerate
