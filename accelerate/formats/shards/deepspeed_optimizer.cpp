#include <set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/shards/deepspeed_checkpoint.h"

namespace accelerate {

using detail::DeepSpeedLayout;
using detail::DeepSpeedValue;
using detail::NamedShape;
using detail::root_of;

namespace {

std::string state_name(const std::string& parameter, const std::string& entry) {
  return "state." + parameter + "." + entry;
}

bool is_number(const TorchValue& value) {
  const auto* tensor = value.as<TorchTensor>();
  return (tensor != nullptr && tensor->shape.empty()) || value.as<std::int64_t>() != nullptr ||
         value.as<double>() != nullptr;
}

// Returns what is below a whole number as the key.
std::optional<DeepSpeedValue> below(const DeepSpeedValue& dict, std::size_t number) {
  const TorchValue* found = dict.value->find(static_cast<std::int64_t>(number));
  if (found == nullptr || found->as<TorchDict>() == nullptr) return std::nullopt;
  return DeepSpeedValue{dict.archive, found, dict.key + "." + std::to_string(number)};
}

// Returns the names of the parameters of each parameter group. In stage 3 a group consists of
// several groups of flat memory, which it lists.
std::vector<DeepSpeedOptimizer::Group> named_groups(
    const DeepSpeedValue& groups, const std::vector<std::vector<NamedShape>>& shapes) {
  std::vector<DeepSpeedOptimizer::Group> all;
  std::set<std::int64_t> used;
  for (const auto& group : groups.items()) {
    auto& named = all.emplace_back();
    named.options = group.value;
    for (const auto& item : group.at("params").items()) {
      const std::int64_t number = item.number();
      if (number < 0 || number >= static_cast<std::int64_t>(shapes.size()) ||
          !used.insert(number).second)
        item.refuse("is " + std::to_string(number) + ", but param_shapes has " +
                    count_of(shapes.size(), "group"));
      for (const NamedShape& one : shapes[static_cast<std::size_t>(number)])
        named.parameters.push_back(one.name);
    }
  }
  if (used.size() != shapes.size())
    groups.refuse("has " + count_of(used.size(), "group") + " of parameters, param_shapes has " +
                  std::to_string(shapes.size()));
  return all;
}

}  // namespace

DeepSpeedValue DeepSpeedCheckpoint::optimizer_state() const {
  if (stage_ == 0) return model().at("optimizer");
  if (optimizers_.empty())
    throw CheckpointError((files_.folder / "zero" / "optimizer_state.pt").string() +
                          " is missing: was the folder copied completely?");
  const auto root = root_of(optimizers_.front());
  return files_.universal ? root : root.at("optimizer_state_dict");
}

void DeepSpeedCheckpoint::add_flat_state(DeepSpeedOptimizer& optimizer) const {
  const char* key = stage_ == 3 ? "optimizer_state_dict" : "base_optimizer_state";
  const DeepSpeedLayout flat = layout();
  std::vector<ShardFile> files;
  std::vector<DeepSpeedValue> states;
  for (const TorchArchive& archive : optimizers_) {
    files.push_back({archive.path(), archive.content()});
    const auto base = root_of(archive).at("optimizer_state_dict").at(key);
    if (base.value->as<TorchList>() != nullptr)
      base.refuse(
          "is of an elastic checkpoint, which has no options of the optimizer; set "
          "elastic_checkpoint to false and save again");
    states.push_back(base.at("state"));
  }
  std::set<std::string> entries;
  for (std::size_t g = 0; g < flat.groups.size(); ++g) {
    const auto state = below(states.front(), g);
    if (!state) continue;
    for (const auto& [entry, value] : state->entries()) {
      if (!is_number(*value.value)) entries.insert(entry);
      for (const NamedShape& one : flat.groups[g])
        if (is_number(*value.value)) optimizer.numbers[one.name].by_entry[entry] = value.value;
    }
  }
  std::vector<FoundPart> parts;
  for (const auto& entry : entries) {
    const auto flat_of = [&](std::size_t rank, std::size_t group) -> std::optional<DeepSpeedValue> {
      const auto state = below(states[rank], group);
      return state ? state->find(entry) : std::nullopt;
    };
    const auto name_of = [&](const std::string& name) { return state_name(name, entry); };
    for (auto& part : flat.parts(flat_of, name_of, 0)) parts.push_back(std::move(part));
  }
  optimizer.tensors = ShardCatalogue::assemble(std::move(files), std::move(parts));
}

void DeepSpeedCheckpoint::add_universal_state(DeepSpeedOptimizer& optimizer) const {
  std::vector<ShardFile> files;
  std::vector<FoundPart> parts;
  // Stage 3 keeps the number of steps with the options alone.
  const TorchValue* step = nullptr;
  if (const auto common = optimizer_state().find("optimizer_state_dict"))
    if (const auto first = below(common->at("state"), 0))
      if (const auto found = first->find("step")) step = found->value;
  for (const auto& group : shapes_) {
    for (const NamedShape& one : group) {
      const auto entries = universal_.find(one.name);
      if (entries == universal_.end())
        throw CheckpointError((files_.folder / "zero" / one.name).string() +
                              " is missing: was the folder copied completely?");
      auto& numbers = optimizer.numbers[one.name].by_entry;
      if (step != nullptr) numbers["step"] = step;
      for (const auto& [entry, archive] : entries->second) {
        if (entry == "fp32") continue;
        if (is_number(archive.value())) {
          numbers[entry] = &archive.value();
          continue;
        }
        files.push_back({archive.path(), archive.content()});
        FoundPart part = universal_part(one.name, archive, files.size() - 1);
        part.name = state_name(one.name, entry);
        parts.push_back(std::move(part));
      }
    }
  }
  optimizer.tensors = ShardCatalogue::assemble(std::move(files), std::move(parts));
}

DeepSpeedOptimizer DeepSpeedCheckpoint::optimizer() const {
  if (stage_ == 0)
    throw CheckpointError(models_.front().path().string() +
                          " is of ZeRO 0: its optimizer numbers the parameters");
  DeepSpeedOptimizer optimizer;
  const auto state = optimizer_state();
  const char* key = stage_ == 3 ? "optimizer_state_dict" : "base_optimizer_state";
  const auto base = files_.universal ? state : state.at(key);
  if (files_.universal)
    add_universal_state(optimizer);
  else
    add_flat_state(optimizer);
  optimizer.groups = named_groups(base.at("param_groups"), shapes_);
  return optimizer;
}

}  // namespace accelerate
