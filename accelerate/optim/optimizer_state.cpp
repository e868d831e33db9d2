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
#include "accelerate/base/text.h"
#include "accelerate/optim/optimizer_fields.h"

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

// An undefined tensor is nothing.
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
  // A copy: the state is not to share memory with what it was read from.
  void load(const StateDict& from, at::Tensor& value) const {
    value = from.is_null()
                ? at::Tensor()
                : from.to<at::Tensor>().to(device, /*non_blocking=*/false, /*copy=*/true);
  }
  void load(const StateDict& from, std::tuple<double, double>& value) const {
    const auto& pair = from.list();
    if (pair.size() != 2)
      throw CheckpointError("there are " + std::to_string(pair.size()) + " numbers, not 2");
    value = {pair[0].to<double>(), pair[1].to<double>()};
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

// Names of the groups' parameters; UsageError for one that stands twice.
std::vector<std::vector<std::string>> group_names(const Optimizer& optimizer,
                                                  const ParameterNames& names) {
  std::vector<std::vector<std::string>> groups(optimizer.param_groups().size());
  std::set<std::string> seen;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t i = 0; i < optimizer.param_groups()[g].params().size(); ++i) {
      groups[g].push_back(name_of(optimizer, g, i, names));
      if (!seen.insert(groups[g].back()).second)
        throw UsageError("two parameters of an optimizer are called '" + groups[g].back() +
                         "', so that their states cannot be told apart");
    }
  }
  return groups;
}

// --- codecs --------------------------------------------------------------------------------------

using Codec = OptimizerCodec<Optimizer>;

struct Registry {
  std::mutex mutex;
  std::map<std::type_index, Codec> codecs;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

template <typename Kind>
StateDict save_known(Optimizer& optimizer, const ParameterNames& names) {
  StateDict::Dict states;
  StateDict::List groups;
  const auto named = group_names(optimizer, names);
  for (std::size_t g = 0; g < named.size(); ++g) {
    auto& group = optimizer.param_groups()[g];
    StateDict options = StateDict::Dict();
    SaveFields field{options};
    Kind::options(static_cast<typename Kind::Options&>(group.options()), field);
    options["params"] = StateDict(named[g]);
    groups.push_back(std::move(options));
    for (std::size_t i = 0; i < named[g].size(); ++i) {
      const auto state = optimizer.state().find(group.params()[i].unsafeGetTensorImpl());
      if (state == optimizer.state().end()) continue;
      StateDict fields = StateDict::Dict();
      SaveFields save{fields};
      Kind::state(static_cast<typename Kind::State&>(*state->second), save);
      states.emplace(named[g][i], std::move(fields));
    }
  }
  return {{"state", std::move(states)}, {"param_groups", std::move(groups)}};
}

[[noreturn]] void refuse_group(std::size_t group, const std::set<std::string>& saved,
                               const std::set<std::string>& present) {
  const auto without = [](const std::set<std::string>& from, const std::set<std::string>& minus) {
    constexpr std::size_t kShown = 8;
    std::vector<std::string> left;
    std::set_difference(from.begin(), from.end(), minus.begin(), minus.end(),
                        std::back_inserter(left));
    if (left.size() > kShown) {
      left.resize(kShown);
      left.emplace_back("…");
    }
    return left.empty() ? std::string("none") : join(left, ", ");
  };
  throw CheckpointError("parameter group " + std::to_string(group) +
                        " of the optimizer is another than the saved one: only saved: " +
                        without(saved, present) + "; only here: " + without(present, saved));
}

void check_group(std::size_t group, const StateDict& saved,
                 const std::vector<std::string>& present) {
  std::set<std::string> names;
  for (const auto& name : saved.at("params").list()) names.insert(name.to<std::string>());
  const std::set<std::string> here(present.begin(), present.end());
  if (names != here) refuse_group(group, names, here);
}

[[noreturn]] void refuse_entry(const std::string& key, const std::string& name,
                               const std::string& what) {
  throw CheckpointError("'" + key + "' of parameter '" + name + "' is " + what);
}

// Moments have the shape of their parameter, and fractions.
void check_moment(const std::string& key, const StateDict& value, const at::Tensor& parameter,
                  const std::string& name) {
  const auto tensor = value.to<at::Tensor>();
  if (tensor.sizes() != parameter.sizes())
    refuse_entry(key, name,
                 value.describe() + ", the parameter is " + StateDict(parameter).describe());
  if (!tensor.is_floating_point() && !tensor.is_complex())
    refuse_entry(key, name,
                 "of " + std::string(c10::toString(tensor.scalar_type())) +
                     "; allowed are floating-point and complex dtypes");
}

// What the options make a step read.
template <typename Kind>
std::vector<const char*> needed_moments(const typename Kind::Options& options) {
  constexpr bool kAdam = std::is_same_v<Kind, detail::Adam> || std::is_same_v<Kind, detail::AdamW>;
  if constexpr (kAdam) {
    if (options.amsgrad()) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
    return {"exp_avg", "exp_avg_sq"};
  } else if constexpr (std::is_same_v<Kind, detail::SGD>) {
    return {"momentum_buffer"};
  } else if constexpr (std::is_same_v<Kind, detail::Adagrad>) {
    return {"sum"};
  } else if constexpr (std::is_same_v<Kind, detail::RMSprop>) {
    std::vector<const char*> keys = {"square_avg"};
    if (options.momentum() > 0) keys.push_back("momentum_buffer");
    if (options.centered()) keys.push_back("grad_avg");
    return keys;
  } else {
    return {};
  }
}

// LBFGS alone keeps tensors of other shapes.
template <typename Kind>
void check_state(const StateDict& fields, const typename Kind::Options& options,
                 const at::Tensor& parameter, const std::string& name) {
  constexpr bool kMoments = !std::is_same_v<Kind, detail::LBFGS>;
  const StateDict::Dict& entries = fields.dict();
  for (const auto& entry : entries) {
    const std::string& key = entry.first;
    const StateDict& value = entry.second;
    const bool counts = key == "step" || key == "n_iter" || key == "func_evals";
    if (counts && value.holds<std::int64_t>() && value.to<std::int64_t>() < 0)
      refuse_entry(key, name, std::to_string(value.to<std::int64_t>()) + "; allowed is 0 or more");
    if (kMoments && value.holds<at::Tensor>()) check_moment(key, value, parameter, name);
  }
  for (const char* key : needed_moments<Kind>(options)) {
    const auto* moment = fields.find(key);
    if (moment != nullptr && moment->is_null())
      refuse_entry(key, name, "nothing; with the saved options it must be a tensor");
  }
}

// That no state is of a parameter that is not here.
void check_known(const StateDict& states, const std::vector<std::vector<std::string>>& named) {
  std::set<std::string> here;
  for (const auto& group : named) here.insert(group.begin(), group.end());
  const StateDict::Dict& entries = states.dict();
  for (const auto& entry : entries)
    if (!here.contains(entry.first))
      throw CheckpointError("there is a state of parameter '" + entry.first +
                            "', which no group of the optimizer has");
}

// Everything is read into new objects before anything of the optimizer is touched.
template <typename Kind>
void load_known(Optimizer& optimizer, const StateDict& saved, const ParameterNames& names) {
  const auto named = group_names(optimizer, names);
  const auto& groups = saved.at("param_groups").list();
  if (groups.size() != named.size())
    throw CheckpointError("the saved optimizer has " + std::to_string(groups.size()) +
                          " parameter groups, this one " + std::to_string(named.size()));
  const auto& states = saved.at("state");
  std::vector<std::unique_ptr<OptimizerOptions>> options;
  ska::flat_hash_map<void*, std::unique_ptr<OptimizerParamState>> loaded;
  for (std::size_t g = 0; g < named.size(); ++g) {
    auto& group = optimizer.param_groups()[g];
    check_group(g, groups[g], named[g]);
    options.push_back(group.options().clone());
    LoadFields field{groups[g], c10::Device(c10::kCPU)};
    Kind::options(static_cast<typename Kind::Options&>(*options.back()), field);
    for (std::size_t i = 0; i < named[g].size(); ++i) {
      const auto* fields = states.find(named[g][i]);
      if (fields == nullptr) continue;
      const auto& parameter = group.params()[i];
      check_state<Kind>(*fields, static_cast<const typename Kind::Options&>(*options.back()),
                        parameter, named[g][i]);
      auto state = std::make_unique<typename Kind::State>();
      LoadFields load{*fields, parameter.device()};
      Kind::state(*state, load);
      loaded[parameter.unsafeGetTensorImpl()] = std::move(state);
    }
  }
  check_known(states, named);
  for (std::size_t g = 0; g < named.size(); ++g)
    optimizer.param_groups()[g].set_options(std::move(options[g]));
  optimizer.state() = std::move(loaded);
}

Codec codec_of(const Optimizer& optimizer) {
  Codec found;
  const bool known = detail::any_optimizer_kind([&]<typename Kind>(Kind) {
    if (typeid(optimizer) != typeid(typename Kind::Optimizer)) return false;
    found = {Kind::name, save_known<Kind>, load_known<Kind>};
    return true;
  });
  if (known) return found;
  Registry& known_by_users = registry();
  const std::lock_guard lock(known_by_users.mutex);
  const auto codec = known_by_users.codecs.find(typeid(optimizer));
  if (codec != known_by_users.codecs.end()) return codec->second;
  throw UsageError("the optimizer " + class_of(optimizer) +
                   " cannot be saved: it is not one of SGD, Adam, AdamW, Adagrad, RMSprop, LBFGS. "
                   "Tell how by register_optimizer_codec<" +
                   class_of(optimizer) + ">.");
}

}  // namespace

void map_state_tensors(Optimizer& optimizer,
                       const std::function<at::Tensor(const at::Tensor&)>& fn) {
  for (auto& [parameter, state] : optimizer.state()) {
    if (map_tensors(*state, MapTensors{fn})) continue;
    throw UsageError("the optimizer " + class_of(optimizer) + " keeps its state in " +
                     c10::demangle(typeid(*state).name()) +
                     ", which is not one of SGD, Adam, AdamW, Adagrad, RMSprop, LBFGS. Prepare it "
                     "before its first step, on the device it is to run on.");
  }
}

StateDict optimizer_state_dict(Optimizer& optimizer, const ParameterNames& names) {
  const Codec codec = codec_of(optimizer);
  StateDict state = codec.state_dict(optimizer, names);
  state["class"] = codec.name;
  return state;
}

void load_optimizer_state_dict(Optimizer& optimizer, const StateDict& state,
                               const ParameterNames& names) {
  const Codec codec = codec_of(optimizer);
  const auto saved = state.at("class").to<std::string>();
  if (saved != codec.name)
    throw CheckpointError("the checkpoint has the state of " + saved + ", the optimizer is " +
                          codec.name);
  codec.load_state_dict(optimizer, state, names);
}

void detail::register_codec(std::type_index type, Codec codec) {
  if (!codec.state_dict || !codec.load_state_dict)
    throw UsageError("the codec '" + codec.name + "' needs state_dict and load_state_dict");
  Registry& known = registry();
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
