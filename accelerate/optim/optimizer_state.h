// The state of optimizers: the moments, buffers and counters that LibTorch and algorithms/ keep in
// typed private fields, and the options of the parameter groups.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <type_traits>
#include <typeindex>
#include <unordered_map>
#include <utility>

#include "accelerate/tensor/checked_state.h"
#include "accelerate/tensor/state_dict.h"

namespace torch::optim {
class Optimizer;
}

namespace accelerate {

/// Replaces every tensor of the optimizer's state (moments, momentum buffers, …) by `fn` of it;
/// step counters that LibTorch keeps as numbers are not visited. Knows SGD, Adam, AdamW, Adagrad,
/// RMSprop, LBFGS, Adafactor, Lion and ScheduleFreeAdamW; throws UsageError that names the type for
/// any other whose state is not empty.
void map_state_tensors(torch::optim::Optimizer& optimizer,
                       const std::function<at::Tensor(const at::Tensor&)>& fn);

/// What parameters are called, "layer1.weight". One that has no name goes by its place,
/// "param_groups.0.3".
using ParameterNames = std::unordered_map<const at::TensorImpl*, std::string>;

/// State and options under the keys of Python's optimizer.state_dict(), but parameters by name:
///
///   {"class": "AdamW",
///    "state": {"layer1.weight": {"step": 12, "exp_avg": tensor, …}, …},
///    "param_groups": [{"lr": 1e-3, …, "params": ["layer1.weight", …]}, …]}
///
/// Tensors are the optimizer's own, not copies. Throws UsageError for a class that is neither one
/// of those above nor registered, and for two parameters of one name.
[[nodiscard]] StateDict optimizer_state_dict(torch::optim::Optimizer& optimizer,
                                             const ParameterNames& names);

/// Makes `optimizer` go on where the one that wrote `state` was: state, and options such as rates.
/// Groups must hold the same parameters, in any order; tensors are copied to the parameters'
/// devices. Throws CheckpointError, and then has changed nothing: another class, other groups or
/// parameters, state of another shape.
void load_optimizer_state_dict(torch::optim::Optimizer& optimizer, const StateDict& state,
                               const ParameterNames& names);

/// The same in two steps: throws what load_optimizer_state_dict does, and returns what loads
/// `state`. A registered class may refuse it only then. `optimizer` must outlive the result. Cost:
/// a copy of the tensors on the parameters' devices, which the optimizer takes over.
[[nodiscard]] CheckedState check_optimizer_state_dict(torch::optim::Optimizer& optimizer,
                                                      const StateDict& state,
                                                      const ParameterNames& names);

/// How the state of an optimizer class of the user's own is saved.
template <typename Optimizer>
struct OptimizerCodec {
  std::string name;  ///< Stands in the checkpoint, "Lamb".
  std::function<StateDict(Optimizer&, const ParameterNames&)> state_dict;
  /// To throw, and to have changed nothing, when `state` does not fit.
  std::function<void(Optimizer&, const StateDict& state, const ParameterNames&)> load_state_dict;
};

namespace detail {
void register_codec(std::type_index type, OptimizerCodec<torch::optim::Optimizer> codec);
}

/// Optimizers whose class is exactly `Optimizer` are saved by `codec` from now on. Thread-safe.
/// Throws UsageError for a class that has one already, another class of that name, or an empty
/// function.
template <typename Optimizer>
  requires std::is_base_of_v<torch::optim::Optimizer, Optimizer>
void register_optimizer_codec(OptimizerCodec<Optimizer> codec) {
  OptimizerCodec<torch::optim::Optimizer> general{std::move(codec.name), {}, {}};
  if (codec.state_dict) {
    general.state_dict = [save = std::move(codec.state_dict)](torch::optim::Optimizer& optimizer,
                                                              const ParameterNames& names) {
      return save(static_cast<Optimizer&>(optimizer), names);
    };
  }
  if (codec.load_state_dict) {
    general.load_state_dict = [load = std::move(codec.load_state_dict)](
                                  torch::optim::Optimizer& optimizer, const StateDict& state,
                                  const ParameterNames& names) {
      load(static_cast<Optimizer&>(optimizer), state, names);
    };
  }
  detail::register_codec(typeid(Optimizer), std::move(general));
}

}  // namespace accelerate
