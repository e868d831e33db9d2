#include "accelerate/base/error_name.h"
#include "accelerate/checkpoint/python/python_objects.h"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/tensor/stored_values.h"

namespace accelerate {
namespace {

using Content = std::shared_ptr<const FileContent>;

// The type that an entry of a parameter's state has here.
enum class As { count, real, tensor, tensors };

struct Field {
  std::string_view name;
  As as;
  bool may_lack = false;  // If absent, it is empty here.
};

struct KnownClass {
  std::string_view name;
  std::string_view telling_option;  // No later class has it, except classes with betas.
  std::span<const Field> fields;
};

constexpr std::array kAdam = {Field{"step", As::count}, Field{"exp_avg", As::tensor},
                              Field{"exp_avg_sq", As::tensor},
                              Field{"max_exp_avg_sq", As::tensor, true}};
constexpr std::array kSgd = {Field{"momentum_buffer", As::tensor, true}};
constexpr std::array kAdagrad = {Field{"step", As::count}, Field{"sum", As::tensor}};
constexpr std::array kRmsprop = {Field{"step", As::count}, Field{"square_avg", As::tensor},
                                 Field{"momentum_buffer", As::tensor, true},
                                 Field{"grad_avg", As::tensor, true}};
// "al" is scratch that every step fills again.
constexpr std::array kLbfgs = {Field{"func_evals", As::count, true},
                               Field{"n_iter", As::count, true},
                               Field{"t", As::real, true},
                               Field{"prev_loss", As::real, true},
                               Field{"d", As::tensor, true},
                               Field{"H_diag", As::tensor, true},
                               Field{"prev_flat_grad", As::tensor, true},
                               Field{"old_dirs", As::tensors, true},
                               Field{"old_stps", As::tensors, true},
                               Field{"ro", As::tensors, true}};
constexpr std::array kAdafactor = {Field{"step", As::count},
                                   Field{"exp_avg", As::tensor, true},
                                   Field{"exp_avg_sq", As::tensor, true},
                                   Field{"exp_avg_sq_row", As::tensor, true},
                                   Field{"exp_avg_sq_col", As::tensor, true},
                                   Field{"RMS", As::tensor}};
constexpr std::array kLion = {Field{"step", As::count}, Field{"state1", As::tensor}};
constexpr std::array kMuon = {Field{"momentum_buffer", As::tensor}};
constexpr std::array kScheduleFreeAdamW = {Field{"z", As::tensor}, Field{"exp_avg_sq", As::tensor}};
constexpr std::array kClasses = {
    KnownClass{"Adafactor", "clip_threshold", kAdafactor},
    KnownClass{"ScheduleFreeAdamW", "weight_lr_power", kScheduleFreeAdamW},
    KnownClass{"Adam", "betas", kAdam},
    KnownClass{"AdamW", "betas", kAdam},
    KnownClass{"Lion", "betas", kLion},
    KnownClass{"Muon", "ns_steps", kMuon},
    KnownClass{"SGD", "nesterov", kSgd},
    KnownClass{"Adagrad", "lr_decay", kAdagrad},
    KnownClass{"RMSprop", "alpha", kRmsprop},
    KnownClass{"LBFGS", "history_size", kLbfgs}};

// Options that do not change what a step computes: how PyTorch computes it, what schedules keep in
// the groups, and names.
constexpr std::array kIdleOptions = {
    "foreach", "capturable", "differentiable", "fused",        "decoupled_weight_decay",
    "params",  "initial_lr", "max_lr",         "min_lr",       "max_momentum",
    "swa_lr",  "name",       "param_names",    "base_momentum"};

const KnownClass& known_class(const std::string& name) {
  const auto known = std::ranges::find(kClasses, name, &KnownClass::name);
  if (known != kClasses.end()) return *known;
  std::vector<std::string> names;
  for (const auto& one : kClasses) names.emplace_back(one.name);
  throw CheckpointError("the optimizer is " + name + "; from Python the states of " +
                        join(names, ", ") + " are read");
}

const TorchValue& need(const TorchValue& dict, std::string_view key, const std::string& what) {
  if (const auto* value = dict.find(key)) return *value;
  throw CheckpointError(what + " has no '" + std::string(key) + "'");
}

// Newer versions of PyTorch's Adam and AdamW say which of the two they are. Lion of bitsandbytes
// has neither of their flags.
std::string saved_class_with_betas(const TorchValue& group) {
  if (group.find("amsgrad") == nullptr && group.find("maximize") == nullptr) return "Lion";
  const auto* decoupled = group.find("decoupled_weight_decay");
  const auto* flag = decoupled == nullptr ? nullptr : decoupled->as<bool>();
  if (flag == nullptr) return "Adam or AdamW";
  return *flag ? "AdamW" : "Adam";
}

// Returns the class that saved the group, judged by its options; "" if it is not known.
std::string saved_class(const TorchValue& group) {
  for (const auto& known : kClasses) {
    if (group.find(known.telling_option) == nullptr) continue;
    return known.telling_option == "betas" ? saved_class_with_betas(group)
                                           : std::string(known.name);
  }
  return "";
}

std::string keys_of(const TorchValue& value) {
  std::vector<std::string> keys;
  if (const auto* dict = value.as<TorchDict>()) {
    for (const auto& [key, ignored] : dict->entries)
      if (const auto* text = key.as<std::string>()) keys.push_back(*text);
  }
  return join(keys, ", ");
}

void check_class(const TorchValue& group, const KnownClass& own) {
  const std::string saved = saved_class(group);
  const bool is_adam = own.name == "Adam" || own.name == "AdamW";
  if (saved == own.name || (saved == "Adam or AdamW" && is_adam)) return;
  throw CheckpointError(
      "the file has the state of " +
          (saved.empty() ? "an optimizer with the options " + keys_of(group) : saved) +
          ", the optimizer is " + std::string(own.name),
      error_name::kOtherOptimizer);
}

// --- options -------------------------------------------------------------------------------------

// A rate may be a tensor of one element, as in capturable optimizers.
StateDict option_of(const TorchValue& value, const Content& content, const std::string& place) {
  StateDict option = state_of(value, content, place);
  if (option.holds<at::Tensor>() && option.to<at::Tensor>().numel() == 1)
    return option.to<at::Tensor>().item<double>();
  return option;
}

bool is_idle(std::string_view option, const TorchValue& value, const KnownClass& own) {
  if (std::ranges::find(kIdleOptions, option) != kIdleOptions.end()) return true;
  if (option == "eps" && own.name == "Lion") return true;  // Lion does not use it.
  const auto* flag = value.as<bool>();
  return option == "maximize" && flag != nullptr && !*flag;
}

void check_options(const TorchValue& group, const StateDict& own, const KnownClass& known,
                   const std::string& place) {
  const auto* dict = group.as<TorchDict>();
  if (dict == nullptr) throw CheckpointError(place + " is " + group.describe() + ", not a dict");
  for (const auto& [key, value] : dict->entries) {
    const auto* name = key.as<std::string>();
    if (name != nullptr && (own.find(*name) != nullptr || is_idle(*name, value, known))) continue;
    throw CheckpointError(
        place + " has the option " + (name == nullptr ? key.describe() : "'" + *name + "'") + ", " +
        value.describe() + ", which " + std::string(known.name) + " here does not have");
  }
}

StateDict options_of(const TorchValue& group, const Content& content, const StateDict& own,
                     const KnownClass& known, const std::string& place) {
  check_options(group, own, known, place);
  StateDict options = StateDict::Dict();
  for (const auto& entry : own.dict()) {
    const std::string& name = entry.first;
    options[name] = name == "params"
                        ? entry.second
                        : option_of(need(group, name, place), content, place + "." + name);
  }
  return options;
}

// --- state ---------------------------------------------------------------------------------------

double number_of(const StateDict& value, const std::string& place) {
  if (!value.holds<at::Tensor>()) return value.to<double>();
  const auto tensor = value.to<at::Tensor>();
  if (tensor.numel() != 1)
    throw CheckpointError("'" + place + "' is " + value.describe() + ", no number");
  return tensor.item<double>();
}

// Reads a step count, which PyTorch keeps in an fp32 tensor.
std::int64_t count_of(const StateDict& value, const std::string& place) {
  const double number = number_of(value, place);
  if (number >= 0 && number < 9e15 && number == std::floor(number))
    return static_cast<std::int64_t>(number);
  throw CheckpointError("'" + place + "' is " + std::to_string(number) + ", no count of steps");
}

StateDict tensor_of(const StateDict& value, const std::string& place) {
  if (value.is_null() || value.holds<at::Tensor>()) return value;
  if (value.holds<std::int64_t>() || value.holds<double>())
    return at::scalar_tensor(value.to<double>());
  throw CheckpointError("'" + place + "' is " + value.describe() + ", no tensor");
}

StateDict tensors_of(const StateDict& value, const std::string& place) {
  StateDict::List tensors;
  for (const auto& item : value.list()) tensors.push_back(tensor_of(item, place));
  return tensors;
}

StateDict absent(As as) {
  if (as == As::count) return 0;
  if (as == As::real) return 0.0;
  return as == As::tensors ? StateDict(StateDict::List()) : StateDict();
}

StateDict field_of(const StateDict& value, As as, const std::string& place) {
  if (value.is_null()) return absent(as);
  if (as == As::count) return count_of(value, place);
  if (as == As::real) return number_of(value, place);
  return as == As::tensors ? tensors_of(value, place) : tensor_of(value, place);
}

void check_entries(const StateDict& saved, const KnownClass& known, const std::string& place) {
  for (const auto& entry : saved.dict()) {
    const std::string& name = entry.first;
    const bool scratch = known.name == "LBFGS" && name == "al";
    if (scratch || std::ranges::find(known.fields, name, &Field::name) != known.fields.end())
      continue;
    throw CheckpointError(place + " has the entry '" + name + "', which " +
                          std::string(known.name) + " here does not keep");
  }
}

StateDict fields_of(const StateDict& saved, const KnownClass& known, const std::string& place) {
  check_entries(saved, known, place);
  StateDict fields = StateDict::Dict();
  for (const auto& [name, as, may_lack] : known.fields) {
    const auto* value = saved.find(name);
    if (!may_lack && (value == nullptr || value->is_null()))
      throw CheckpointError(place + " has no '" + std::string(name) + "'");
    fields[std::string(name)] =
        field_of(value == nullptr ? StateDict() : *value, as, place + "." + std::string(name));
  }
  if (known.name == "LBFGS") fields["al"] = StateDict();
  return fields;
}

// Whether the parameter has no momentum yet: LibTorch keeps no state for it then.
bool is_empty(const StateDict& fields, const KnownClass& known) {
  return known.name == "SGD" && fields.at("momentum_buffer").is_null();
}

// --- parameters ----------------------------------------------------------------------------------

// A parameter of the optimizer here, and its key in the saved state.
struct SavedParameter {
  std::string name;
  TorchValue key;
};

std::string without_prefixes(std::string name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view prefix : {"module.", "_orig_mod."}) {
      if (!name.starts_with(prefix)) continue;
      name.erase(0, prefix.size());
      again = true;
    }
  }
  return name;
}

// FSDP calls parameters by their names, and may put them in another order.
std::vector<SavedParameter> parameters_by_name(const std::vector<std::string>& names,
                                               std::span<const TorchValue> keys,
                                               const std::string& place) {
  std::map<std::string, const TorchValue*> by_name;
  std::vector<std::string> known;
  for (const auto& key : keys) {
    const std::string& name = *key.as<std::string>();
    by_name.emplace(name, &key);
    by_name.emplace(without_prefixes(name), &key);
    known.push_back(name);
  }
  std::vector<SavedParameter> parameters;
  for (const auto& name : names) {
    const auto found = by_name.find(name);
    if (found == by_name.end())
      throw CheckpointError(place + " has no parameter '" + name + "'." +
                            did_you_mean(name, known) + " Its parameters: " + join(known, ", "));
    parameters.push_back({name, *found->second});
  }
  return parameters;
}

// Returns the keys of a group's parameters; there must be as many as names.
std::vector<SavedParameter> parameters_of(const TorchValue& group, const StateDict::List& own,
                                          const std::string& place) {
  std::vector<std::string> names;
  for (const auto& name : own) names.push_back(name.to<std::string>());
  const auto keys = need(group, "params", place).items();
  if (keys.size() != names.size())
    throw CheckpointError(place + " has " + std::to_string(keys.size()) +
                          " parameters; the optimizer's group has " + std::to_string(names.size()));
  const auto is_text = [](const TorchValue& key) { return key.as<std::string>() != nullptr; };
  if (!keys.empty() && std::ranges::all_of(keys, is_text))
    return parameters_by_name(names, keys, place);
  std::vector<SavedParameter> parameters;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].as<std::int64_t>() == nullptr)
      throw CheckpointError(place + " calls a parameter " + keys[i].describe() + ", no number");
    parameters.push_back({names[i], keys[i]});
  }
  return parameters;
}

// Merges the nested dict into which bitsandbytes puts tensors that quantization may reshape.
StateDict unwrapped(const StateDict& saved) {
  constexpr std::string_view kWrapped = "__bnb_optimizer_quant_state__";
  const auto* inner = saved.find(kWrapped);
  if (inner == nullptr) return saved;
  StateDict all = StateDict::Dict();
  for (const auto& [name, value] : saved.dict())
    if (name != kWrapped) all[name] = value;
  for (const auto& [name, value] : inner->dict()) all[name] = value;
  return all;
}

void add_states(const SavedOptimizer& saved, const KnownClass& known,
                const std::vector<SavedParameter>& parameters, StateDict::Dict& out) {
  for (const auto& [name, key] : parameters) {
    const auto state = saved.state_of(key, name);
    if (!state) continue;
    const std::string place = "the state of '" + name + "'";
    const StateDict plain = unwrapped(*state);
    if (plain.dict().empty()) continue;
    StateDict fields = fields_of(plain, known, place);
    if (!is_empty(fields, known)) out.insert_or_assign(name, std::move(fields));
  }
}

}  // namespace

SavedOptimizer saved_optimizer_of(const TorchValue& saved, const Content& content) {
  const auto& states = need(saved, "state", "the file");
  const auto groups = need(saved, "param_groups", "the file").items();
  return {{groups.begin(), groups.end()},
          content,
          [&states, content](const TorchValue& key,
                             const std::string& name) -> std::optional<StateDict> {
            const auto* number = key.as<std::int64_t>();
            const auto* found =
                number != nullptr ? states.find(*number) : states.find(*key.as<std::string>());
            if (found == nullptr) return std::nullopt;
            return state_of(*found, content, "the state of '" + name + "'");
          }};
}

StateDict optimizer_state_of_python(const SavedOptimizer& saved, const StateDict& own) {
  const KnownClass& known = known_class(own.at("class").to<std::string>());
  const auto& groups = saved.groups;
  const auto& own_groups = own.at("param_groups").list();
  if (groups.size() != own_groups.size())
    throw CheckpointError("the file has " + std::to_string(groups.size()) +
                              " parameter groups, the optimizer " +
                              std::to_string(own_groups.size()),
                          error_name::kOtherOptimizer);
  StateDict::Dict named;
  StateDict::List options;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::string place = "parameter group " + std::to_string(g);
    check_class(groups[g], known);
    options.push_back(options_of(groups[g], saved.content, own_groups[g], known, place));
    add_states(saved, known, parameters_of(groups[g], own_groups[g].at("params").list(), place),
               named);
  }
  return {{"class", std::string(known.name)},
          {"state", std::move(named)},
          {"param_groups", std::move(options)}};
}

}  // namespace accelerate
