#include "accelerate/checkpoint/python/python_deepspeed.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/checkpoint/python/python_objects.h"
#include "accelerate/checkpoint/sharded_files.h"
#include "accelerate/checkpoint/state_file.h"
#include "accelerate/checkpoint/state_shards.h"
#include "accelerate/tensor/stored_values.h"

namespace accelerate {
namespace {

using detail::DeepSpeedValue;
using Saved = std::shared_ptr<const DeepSpeedCheckpoint>;

// Keeps the files of a checkpoint open.
class DeepSpeedContent : public FileContent {
 public:
  explicit DeepSpeedContent(Saved saved) : saved_(std::move(saved)) {}
  [[nodiscard]] std::span<const std::byte> bytes() const override { return {}; }

 private:
  Saved saved_;
};

// --- options -------------------------------------------------------------------------------------

TorchValue& option_in(TorchDict& group, const std::string& name) {
  for (auto& [key, value] : group.entries)
    if (const auto* text = key.as<std::string>(); text != nullptr && *text == name) return value;
  group.entries.push_back({{name}, {}});
  return group.entries.back().value;
}

void remove_option(TorchDict& group, std::string_view name) {
  std::erase_if(group.entries, [&](const TorchEntry& entry) {
    const auto* text = entry.key.as<std::string>();
    return text != nullptr && *text == name;
  });
}

// Optimizers of DeepSpeed have other options than PyTorch's. Gives the group the ones of PyTorch.
void use_options_of_torch(TorchDict& group, const std::string& own_class) {
  const TorchValue copy{group};
  if (const auto* corrects = copy.find("bias_correction")) {
    if (const auto* flag = corrects->as<bool>(); flag == nullptr || !*flag)
      throw CheckpointError("the optimizer has bias_correction " + corrects->describe() +
                            "; here moments are always corrected");
    remove_option(group, "bias_correction");
  }
  if (own_class == "Lion") return remove_option(group, "step");
  remove_option(group, "step");
  const bool is_adam = own_class == "Adam" || own_class == "AdamW";
  if (is_adam && copy.find("betas") != nullptr && copy.find("amsgrad") == nullptr)
    option_in(group, "amsgrad") = {false};
  if (own_class == "Adagrad" && copy.find("lr_decay") == nullptr) {
    remove_option(group, "amsgrad");
    option_in(group, "lr_decay") = {0.0};
    option_in(group, "initial_accumulator_value") = {0.0};
  }
}

// Returns PyTorch's name of an entry in the state of DeepSpeed's own optimizers; nullopt for what
// nothing reads: a second moment of Lion, which is 0, and a second name of Adagrad's sums.
std::optional<std::string> entry_of_torch(const std::string& entry, const std::string& own_class,
                                          const std::vector<std::string>& all) {
  if (own_class == "Lion" && entry == "exp_avg") return "state1";
  if (own_class == "Lion" && entry == "exp_avg_sq") return std::nullopt;
  if (own_class == "Adagrad" && entry == "exp_avg_sq")
    return std::ranges::find(all, "sum") == all.end() ? std::optional<std::string>("sum")
                                                      : std::nullopt;
  return entry;
}

// --- the optimizer of ZeRO 1 to 3 ----------------------------------------------------------------

class FlatOptimizer {
 public:
  FlatOptimizer(Saved saved, const StatePart& part)
      : saved_(std::move(saved)),
        optimizer_(saved_->optimizer()),
        own_(part.state_dict()),
        own_class_(own_.at("class").to<std::string>()),
        shards_(part.shards),
        tensors_("model", optimizer_.tensors),
        content_(std::make_shared<DeepSpeedContent>(saved_)) {
    for (auto& outline : tensors_.outlines()) outlines_.emplace(outline.name, outline);
    for (const auto& group : optimizer_.groups)
      trained_.insert(group.parameters.begin(), group.parameters.end());
    for (const auto& [name, outline] : outlines_) add_entry(name);
  }

  [[nodiscard]] const StateDict& own() const { return own_; }
  [[nodiscard]] const std::shared_ptr<const FileContent>& content() const { return content_; }

  [[nodiscard]] std::vector<TorchValue> groups() const {
    std::vector<TorchValue> groups;
    for (const auto& group : optimizer_.groups) {
      TorchDict dict = *group.options->as<TorchDict>();
      use_options_of_torch(dict, own_class_);
      TorchList names;
      for (const auto& name : group.parameters) names.items.push_back({name});
      for (const auto& name : frozen_of(groups.size())) names.items.push_back({name});
      option_in(dict, "params") = {std::move(names)};
      groups.push_back({std::move(dict)});
    }
    return groups;
  }

  [[nodiscard]] std::optional<StateDict> state_of(const TorchValue& key,
                                                  const std::string& name) const {
    const auto* saved = key.as<std::string>();
    if (saved == nullptr || !trained_.contains(*saved)) return std::nullopt;
    StateDict state = StateDict::Dict();
    if (const auto entries = entries_.find(*saved); entries != entries_.end())
      for (const auto& entry : entries->second)
        if (const auto own = entry_of_torch(entry, own_class_, entries->second))
          state[*own] = load_part(tensors_, outlines_.at(stored_name(*saved, entry)),
                                  stored_name(name, entry), shards_);
    if (const auto numbers = optimizer_.numbers.find(*saved); numbers != optimizer_.numbers.end())
      for (const auto& [entry, value] : numbers->second.by_entry)
        state[entry] = accelerate::state_of(*value, content_, stored_name(*saved, entry));
    if (own_class_ == "SGD") {  // ZeRO 3 counts its steps in vain.
      StateDict kept = StateDict::Dict();
      for (const auto& [entry, value] : state.dict())
        if (entry != "step") kept[entry] = value;
      return kept;
    }
    if (state.find("step") == nullptr) add_step_of_group(state, *saved);
    return state;
  }

 private:
  static std::string stored_name(const std::string& parameter, const std::string& entry) {
    return "state." + parameter + "." + entry;
  }

  void add_entry(const std::string& stored) {
    const auto dot = stored.rfind('.');
    entries_[stored.substr(6, dot - 6)].push_back(stored.substr(dot + 1));
  }

  // DeepSpeed leaves parameters that are not trained out of its groups.
  [[nodiscard]] std::vector<std::string> frozen_of(std::size_t group) const {
    std::vector<std::string> names;
    const auto& own_groups = own_.at("param_groups").list();
    if (group >= own_groups.size()) return names;
    for (const auto& item : own_groups[group].at("params").list()) {
      auto name = item.to<std::string>();
      if (!trained_.contains(name) && saved_->weights().find(name) != nullptr)
        names.push_back(std::move(name));
    }
    return names;
  }

  // Its fused optimizers count steps in the group.
  void add_step_of_group(StateDict& state, const std::string& parameter) const {
    for (const auto& group : optimizer_.groups) {
      if (std::ranges::find(group.parameters, parameter) == group.parameters.end()) continue;
      if (const auto* step = group.options->find("step"))
        state["step"] = accelerate::state_of(*step, content_, "step");
    }
  }

  Saved saved_;
  DeepSpeedOptimizer optimizer_;
  StateDict own_;
  std::string own_class_;
  StateShards shards_;
  ShardedTensors tensors_;
  std::shared_ptr<const FileContent> content_;
  std::map<std::string, NamedTensor> outlines_;
  std::map<std::string, std::vector<std::string>> entries_;  // By parameter.
  std::set<std::string> trained_;
};

// --- ZeRO 0 --------------------------------------------------------------------------------------

// Returns the fp32 weights of ZeRO 0 by the names of the parameters in the optimizer's groups.
std::map<std::string, at::Tensor> masters_of(const Saved& saved, const StatePart& optimizer) {
  std::map<std::string, at::Tensor> masters;
  const DeepSpeedValue state = saved->optimizer_state();
  if (state.find("fp32_groups_flat"))
    state.refuse(
        "is of a fused optimizer without ZeRO, whose weights are not read: save under ZeRO 1");
  const auto groups = state.find("fp32_groups");
  if (!groups) return masters;
  const auto content = std::make_shared<DeepSpeedContent>(saved);
  const StateDict own = optimizer.state_dict();
  const auto& own_groups = own.at("param_groups").list();
  const auto saved_groups = groups->items();
  for (std::size_t g = 0; g < std::min(saved_groups.size(), own_groups.size()); ++g) {
    const auto tensors = saved_groups[g].items();
    const auto& names = own_groups[g].at("params").list();
    if (tensors.size() != names.size())
      saved_groups[g].refuse("has " + std::to_string(tensors.size()) +
                             " parameters; the optimizer's group has " +
                             std::to_string(names.size()));
    for (std::size_t i = 0; i < tensors.size(); ++i)
      masters.emplace(names[i].to<std::string>(), tensor_view(tensors[i].tensor(), content));
  }
  return masters;
}

void use_masters(WeightReader& weights, std::map<std::string, at::Tensor> masters,
                 const DeepSpeedValue& model) {
  if (masters.empty()) return;
  if (const auto shared = model.find("shared_params"))
    for (const auto& [name, source] : shared->entries())
      if (const auto* text = source.value->as<std::string>(); masters.contains(*text))
        masters.emplace(name, masters.at(*text));
  for (auto& outline : weights.outlines) {
    const auto master = masters.find(outline.name);
    if (master == masters.end()) continue;
    if (master->second.sizes() != outline.tensor.sizes())
      throw CheckpointError("the fp32 weight of '" + outline.name +
                            "' has another shape than the weight: are the optimizer's parameters "
                            "in another order than they were?");
    outline.tensor = at::empty_like(master->second, at::TensorOptions(at::kMeta));
  }
  weights.read = [masters, read = weights.read](const std::string& name) {
    const auto master = masters.find(name);
    return master == masters.end() ? read(name) : master->second;
  };
  weights.read_range = [masters, read = weights.read_range](
                           const std::string& name, std::int64_t begin, std::int64_t numel) {
    const auto master = masters.find(name);
    return master == masters.end() ? read(name, begin, numel)
                                   : master->second.reshape({-1}).narrow(0, begin, numel);
  };
}

// --- the loss scaler -----------------------------------------------------------------------------

// Returns a number that a loss scaler has as an attribute, or under ZeRO 0 below a key.
std::optional<double> number_in(const DeepSpeedValue& scaler, std::string_view name) {
  const TorchValue* found = scaler.value->attribute(name);
  if (found == nullptr) found = scaler.value->find(name);
  if (found == nullptr) return std::nullopt;
  if (const auto* whole = found->as<std::int64_t>()) return static_cast<double>(*whole);
  if (const auto* real = found->as<double>()) return *real;
  if (found->as<TorchNone>() != nullptr) return std::nullopt;
  scaler.refuse("has '" + std::string(name) + "' as " + found->describe() + ", not a number");
}

}  // namespace

PythonDeepSpeed PythonDeepSpeed::open(FileSystem& files, const std::filesystem::path& folder) {
  PythonDeepSpeed found;
  if (!holds_deepspeed(files, folder)) return found;
  const auto open = [&](const std::string& tag) {
    found.models_.push_back(std::make_shared<const DeepSpeedCheckpoint>(
        DeepSpeedCheckpoint::open(folder, {.tag = tag}, files)));
  };
  for (int i = 0;; ++i) {
    const std::string tag = "pytorch_model" + (i == 0 ? "" : "_" + std::to_string(i));
    if (!holds_deepspeed(files, folder / tag)) break;
    open(tag);
  }
  if (found.models_.empty()) open("");
  return found;
}

std::filesystem::path PythonDeepSpeed::folder(int number) const {
  return models_.at(static_cast<std::size_t>(number))->files().folder;
}

bool PythonDeepSpeed::has_schedule(int number) const {
  return number < count() &&
         models_[static_cast<std::size_t>(number)]->model().find("lr_scheduler").has_value();
}

WeightReader PythonDeepSpeed::weights(int number, const StatePart* optimizer) const {
  const Saved& saved = models_.at(static_cast<std::size_t>(number));
  auto weights = reader_of(std::make_shared<ShardedTensors>("model", saved->weights()));
  if (saved->stage() == 0 && optimizer != nullptr)
    use_masters(weights, masters_of(saved, *optimizer), saved->model());
  return weights;
}

StateDict PythonDeepSpeed::optimizer(int number, const StatePart& part) const {
  const Saved& saved = models_.at(static_cast<std::size_t>(number));
  if (saved->stage() == 0) {
    const DeepSpeedValue state = saved->optimizer_state();
    const auto base = state.find("optimizer_state_dict").value_or(state);
    return optimizer_state_of_python(
        saved_optimizer_of(*base.value, std::make_shared<DeepSpeedContent>(saved)),
        part.state_dict());
  }
  const auto flat = std::make_shared<const FlatOptimizer>(saved, part);
  return optimizer_state_of_python({flat->groups(), flat->content(),
                                    [flat](const TorchValue& key, const std::string& name) {
                                      return flat->state_of(key, name);
                                    }},
                                   flat->own());
}

StateDict PythonDeepSpeed::schedule(int number, const StatePart& part) const {
  const Saved& saved = models_.at(static_cast<std::size_t>(number));
  const auto schedule = saved->model().at("lr_scheduler");
  const auto iteration = schedule.find("last_batch_iteration");
  const auto content = std::make_shared<DeepSpeedContent>(saved);
  if (!iteration) return scheduler_state_of_python(*schedule.value, content);
  // DeepSpeed's schedules begin to count at -1.
  const std::int64_t steps = iteration->number() + 1;
  StateDict state = part.state_dict();
  state["last_epoch"] = steps;
  state["_step_count"] = steps + 1;
  const DeepSpeedValue optimizer = saved->optimizer_state();
  const char* key =
      optimizer.find("base_optimizer_state") ? "base_optimizer_state" : "optimizer_state_dict";
  StateDict::List rates;
  for (const auto& group : optimizer.find(key).value_or(optimizer).at("param_groups").items())
    rates.push_back(state_of(*group.at("lr").value, content, "lr"));
  state["_last_lr"] = std::move(rates);
  return state;
}

StateDict PythonDeepSpeed::scaler(const StatePart& part) const {
  const DeepSpeedValue optimizer = models_.at(0)->optimizer_state();
  const DeepSpeedValue scaler = optimizer.find("loss_scaler").value_or(optimizer);
  StateDict state = part.state_dict();
  const auto scale = number_in(scaler, "cur_scale");
  if (!scale) scaler.refuse("has no 'cur_scale'");
  state["scale"] = *scale;
  const auto window = number_in(scaler, "scale_window");
  const auto factor = number_in(scaler, "scale_factor");
  if (!window || !factor) return state;  // A scale that never moves.
  if (*window < 1 || *factor <= 1) scaler.refuse("has a scale_window or scale_factor below 1");
  state["growth_factor"] = *factor;
  state["backoff_factor"] = 1 / *factor;
  const auto interval = static_cast<std::int64_t>(*window);
  state["growth_interval"] = interval;
  // The first good step, at the start or after an overflow, does not count.
  const auto good =
      static_cast<std::int64_t>(number_in(scaler, "cur_iter").value_or(0) -
                                number_in(scaler, "last_overflow_iter").value_or(-1)) -
      2;
  state["_growth_tracker"] = good < 0 ? std::int64_t{-1} : good % interval;
  if (const auto left = number_in(scaler, "cur_hysteresis");
      left && state.find("_hysteresis_tracker") != nullptr)
    state["_hysteresis_tracker"] = static_cast<std::int64_t>(*left);
  return state;
}

}  // namespace accelerate
