#include "accelerate/optim/optimizer_state.h"

#include <c10/util/Type.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/optim/offloaded_state.h"
#include "accelerate/optim/optimizer_checks.h"
#include "accelerate/optim/optimizer_fields.h"
#include "accelerate/parallel/offload/offload_store.h"

namespace accelerate {
namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamState;

std::string class_of(const Optimizer& optimizer) {
  return c10::demangle(typeid(optimizer).name());
}

// --- tensors -------------------------------------------------------------------------------------

struct MapTensors {
  const std::function<at::Tensor(const at::Tensor&)>& fn;

  void operator()(const char*, at::Tensor& tensor) const {
    if (tensor.defined()) tensor = fn(tensor);
  }
  void operator()(const char*, std::deque<at::Tensor>& tensors) const {
    for (auto& tensor : tensors) tensor = fn(tensor);
  }
  void operator()(const char*, std::optional<std::vector<at::Tensor>>& tensors) const {
    if (!tensors) return;
    for (auto& tensor : *tensors)
      if (tensor.defined()) tensor = fn(tensor);
  }
  template <typename Number>
  void operator()(const char*, Number&) const {}
};

bool map_tensors(OptimizerParamState& state, const MapTensors& field) {
  return detail::any_optimizer_kind([&]<typename Kind>(Kind) {
    auto* typed = dynamic_cast<typename Kind::State*>(&state);
    if (typed != nullptr) Kind::state(*typed, field);
    return typed != nullptr;
  });
}

// --- fields to a StateDict and back --------------------------------------------------------------

// Saves an undefined tensor as null.
StateDict of_tensor(const at::Tensor& tensor) {
  return tensor.defined() ? StateDict(tensor) : StateDict();
}

struct SaveFields {
  StateDict& out;

  template <typename T>
  void operator()(const char* name, const T& value) const {
    out[name] = saved(value);
  }

 private:
  static StateDict saved(bool value) { return value; }
  static StateDict saved(std::int64_t value) { return value; }
  static StateDict saved(double value) { return value; }
  static StateDict saved(const std::string& value) { return value; }
  static StateDict saved(const at::Tensor& value) { return of_tensor(value); }
  static StateDict saved(const std::tuple<double, double>& value) {
    return StateDict::List{std::get<0>(value), std::get<1>(value)};
  }
  static StateDict saved(const std::tuple<double, double, double>& value) {
    return StateDict::List{std::get<0>(value), std::get<1>(value), std::get<2>(value)};
  }
  template <typename T>
  static StateDict saved(const std::optional<T>& value) {
    return value ? saved(*value) : StateDict();
  }
  static StateDict saved(const std::deque<at::Tensor>& value) { return list_of(value); }
  static StateDict saved(const std::vector<at::Tensor>& value) { return list_of(value); }
  template <typename Tensors>
  static StateDict list_of(const Tensors& tensors) {
    StateDict::List list;
    for (const auto& tensor : tensors) list.push_back(of_tensor(tensor));
    return list;
  }
};

struct LoadFields {
  const StateDict& in;
  c10::Device device;
  bool copies = true;  // Whether tensors must not share memory with their source.

  template <typename T>
  void operator()(const char* name, T& value) const {
    try {
      load(in.at(name), value);
    } catch (const CheckpointError&) {
      throw_with_context<CheckpointError>("the field '" + std::string(name) +
                                          "' of an optimizer does not fit");
    }
  }

 private:
  template <typename T>
  void load(const StateDict& from, T& value) const {
    value = from.to<T>();
  }
  void load(const StateDict& from, at::Tensor& value) const {
    value = from.is_null() ? at::Tensor()
                           : from.to<at::Tensor>().to(device, /*non_blocking=*/false, copies);
  }
  void load(const StateDict& from, std::tuple<double, double>& value) const {
    const auto& pair = numbers(from, 2);
    value = {pair[0].to<double>(), pair[1].to<double>()};
  }
  void load(const StateDict& from, std::tuple<double, double, double>& value) const {
    const auto& triple = numbers(from, 3);
    value = {triple[0].to<double>(), triple[1].to<double>(), triple[2].to<double>()};
  }
  static const StateDict::List& numbers(const StateDict& from, std::size_t count) {
    const auto& list = from.list();
    if (list.size() == count) return list;
    throw CheckpointError("there are " + std::to_string(list.size()) + " numbers, not " +
                          std::to_string(count));
  }
  template <typename T>
  void load(const StateDict& from, std::optional<T>& value) const {
    value.reset();
    if (!from.is_null()) load(from, value.emplace());
  }
  void load(const StateDict& from, std::deque<at::Tensor>& value) const { load_list(from, value); }
  void load(const StateDict& from, std::vector<at::Tensor>& value) const { load_list(from, value); }
  template <typename Tensors>
  void load_list(const StateDict& from, Tensors& tensors) const {
    tensors.clear();
    for (const auto& item : from.list()) load(item, tensors.emplace_back());
  }
};

// --- parameters by name --------------------------------------------------------------------------

std::string name_of(const Optimizer& optimizer, std::size_t group, std::size_t index,
                    const ParameterNames& names) {
  const auto& parameter = optimizer.param_groups()[group].params()[index];
  if (const auto named = names.find(parameter.unsafeGetTensorImpl()); named != names.end())
    return named->second;
  return "param_groups." + std::to_string(group) + '.' + std::to_string(index);
}

// The parameters of one group, each once: parameters() of a LibTorch module lists tied weights as
// often as they are used.
struct NamedGroup {
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
};

// Throws UsageError if two parameters have the same name.
std::vector<NamedGroup> named_groups(const Optimizer& optimizer, const ParameterNames& names) {
  std::vector<NamedGroup> groups(optimizer.param_groups().size());
  std::map<std::string, const at::TensorImpl*> seen;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& parameters = optimizer.param_groups()[g].params();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto name = name_of(optimizer, g, i, names);
      const auto place = seen.emplace(name, parameters[i].unsafeGetTensorImpl());
      if (place.second) {
        groups[g].names.push_back(name);
        groups[g].parameters.push_back(parameters[i]);
      } else if (place.first->second != parameters[i].unsafeGetTensorImpl()) {
        throw UsageError("two parameters of an optimizer are called '" + name +
                         "', so that their states cannot be told apart");
      }
    }
  }
  return groups;
}

// --- codecs --------------------------------------------------------------------------------------

using Codec = OptimizerCodec<Optimizer>;

struct CodecRegistry {
  std::mutex mutex;
  std::map<std::type_index, Codec> codecs;
};

CodecRegistry& codec_registry() {
  static CodecRegistry instance;
  return instance;
}

template <typename Kind>
StateDict save_known(Optimizer& optimizer, const ParameterNames& names) {
  StateDict::Dict states;
  StateDict::List groups;
  const auto named = named_groups(optimizer, names);
  for (std::size_t g = 0; g < named.size(); ++g) {
    auto& group = optimizer.param_groups()[g];
    StateDict options = StateDict::Dict();
    SaveFields field{options};
    Kind::options(static_cast<typename Kind::Options&>(group.options()), field);
    options["params"] = StateDict(named[g].names);
    groups.push_back(std::move(options));
    for (std::size_t i = 0; i < named[g].names.size(); ++i) {
      const auto state = optimizer.state().find(named[g].parameters[i].unsafeGetTensorImpl());
      if (state == optimizer.state().end()) continue;
      StateDict fields = StateDict::Dict();
      SaveFields save{fields};
      Kind::state(static_cast<typename Kind::State&>(*state->second), save);
      states.emplace(named[g].names[i], std::move(fields));
    }
  }
  return {{"state", std::move(states)}, {"param_groups", std::move(groups)}};
}

// New options and states for an optimizer to take over.
struct Loaded {
  std::vector<std::unique_ptr<OptimizerOptions>> options;  // By group.
  ska::flat_hash_map<void*, std::unique_ptr<OptimizerParamState>> states;
};

template <typename Kind>
Loaded read_known(Optimizer& optimizer, const StateDict& saved, const ParameterNames& names) {
  const auto named = named_groups(optimizer, names);
  const auto& groups = saved.at("param_groups").list();
  if (groups.size() != named.size())
    throw CheckpointError("the saved optimizer has " + std::to_string(groups.size()) +
                              " parameter groups, this one " + std::to_string(named.size()),
                          error_name::kOtherOptimizer);
  const auto& states = saved.at("state");
  Loaded loaded;
  std::vector<std::vector<std::string>> all_names;
  for (std::size_t g = 0; g < named.size(); ++g) {
    auto& group = optimizer.param_groups()[g];
    const auto& [own_names, parameters] = named[g];
    all_names.push_back(own_names);
    detail::check_group(g, groups[g], own_names);
    auto& options = *loaded.options.emplace_back(group.options().clone());
    LoadFields field{groups[g], c10::Device(c10::kCPU)};
    Kind::options(static_cast<typename Kind::Options&>(options), field);
    for (std::size_t i = 0; i < own_names.size(); ++i) {
      const auto* fields = states.find(own_names[i]);
      if (fields == nullptr) continue;
      const auto& parameter = parameters[i];
      detail::check_state<Kind>(*fields, static_cast<const typename Kind::Options&>(options),
                                parameter, own_names[i]);
      auto state = std::make_unique<typename Kind::State>();
      // State that lives in files is copied there when it is taken over.
      const bool lives_in_files = detail::OffloadStore::keeping_state_of(parameter) != nullptr;
      LoadFields load{*fields, parameter.device(), !lives_in_files};
      Kind::state(*state, load);
      loaded.states[parameter.unsafeGetTensorImpl()] = std::move(state);
    }
  }
  detail::check_parameters(states, all_names);
  return loaded;
}

template <typename Kind>
CheckedState check_known(Optimizer& optimizer, const StateDict& saved,
                         const ParameterNames& names) {
  const auto loaded = std::make_shared<Loaded>(read_known<Kind>(optimizer, saved, names));
  return {[&optimizer, loaded] {
    for (std::size_t g = 0; g < loaded->options.size(); ++g)
      optimizer.param_groups()[g].set_options(std::move(loaded->options[g]));
    optimizer.state() = std::move(loaded->states);
    detail::move_state(optimizer);
  }};
}

// How an optimizer is saved and loaded: as a known class, or by a user's codec.
struct Handler {
  std::string name;
  std::function<StateDict(Optimizer&, const ParameterNames&)> state_dict;
  std::function<CheckedState(Optimizer&, const StateDict&, const ParameterNames&)> check;
};

Handler handler_by(const Codec& codec) {
  const auto check = [load = codec.load_state_dict](Optimizer& optimizer, const StateDict& state,
                                                    const ParameterNames& names) -> CheckedState {
    return {[&optimizer, load, state, names] { load(optimizer, state, names); }, true};
  };
  return {codec.name, codec.state_dict, check};
}

Handler handler_of(const Optimizer& optimizer) {
  Handler found;
  const bool known = detail::any_optimizer_kind([&]<typename Kind>(Kind) {
    if (typeid(optimizer) != typeid(typename Kind::Optimizer)) return false;
    found = {Kind::name, save_known<Kind>, check_known<Kind>};
    return true;
  });
  if (known) return found;
  CodecRegistry& known_by_users = codec_registry();
  const std::lock_guard lock(known_by_users.mutex);
  const auto codec = known_by_users.codecs.find(typeid(optimizer));
  if (codec != known_by_users.codecs.end()) return handler_by(codec->second);
  throw UsageError("the optimizer " + class_of(optimizer) + " cannot be saved: it is not one of " +
                   detail::kKnownOptimizers + ". Tell how by register_optimizer_codec<" +
                   class_of(optimizer) + ">.");
}

}  // namespace

void map_state_tensors(Optimizer& optimizer,
                       const std::function<at::Tensor(const at::Tensor&)>& fn) {
  for (auto& [parameter, state] : optimizer.state()) {
    if (map_tensors(*state, MapTensors{fn})) continue;
    throw UsageError("the optimizer " + class_of(optimizer) + " keeps its state in " +
                     c10::demangle(typeid(*state).name()) + ", which is not one of " +
                     detail::kKnownOptimizers +
                     ". Prepare it before its first step, on the device it is to run on.");
  }
}

StateDict optimizer_state_dict(Optimizer& optimizer, const ParameterNames& names) {
  const Handler handler = handler_of(optimizer);
  StateDict state = handler.state_dict(optimizer, names);
  state["class"] = handler.name;
  return state;
}

CheckedState check_optimizer_state_dict(Optimizer& optimizer, const StateDict& state,
                                        const ParameterNames& names) {
  const Handler handler = handler_of(optimizer);
  const auto saved = state.at("class").to<std::string>();
  if (saved != handler.name)
    throw CheckpointError(
        "the checkpoint has the state of " + saved + ", the optimizer is " + handler.name,
        error_name::kOtherOptimizer);
  return handler.check(optimizer, state, names);
}

void load_optimizer_state_dict(Optimizer& optimizer, const StateDict& state,
                               const ParameterNames& names) {
  check_optimizer_state_dict(optimizer, state, names).load();
}

void detail::register_codec(std::type_index type, Codec codec) {
  if (!codec.state_dict || !codec.load_state_dict)
    throw UsageError("the codec '" + codec.name + "' needs state_dict and load_state_dict");
  CodecRegistry& known = codec_registry();
  const std::lock_guard lock(known.mutex);
  for (const auto& [other, registered] : known.codecs) {
    if (other == type || registered.name == codec.name)
      throw UsageError("the optimizer " + c10::demangle(type.name()) + " as '" + codec.name +
                       "': " + c10::demangle(other.name()) + " is registered as '" +
                       registered.name + "' already");
  }
  known.codecs.emplace(type, std::move(codec));
}

}  // namespace accelerate
