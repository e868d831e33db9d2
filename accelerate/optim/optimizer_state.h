// The state of optimizers: moments, buffers and counters, which LibTorch and algorithms/ keep in
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

/// Replaces every tensor of the optimizer's state (moments, momentum buffers, …) by `fn` of it.
/// Does not visit step counters that LibTorch keeps as numbers. Knows SGD, Adam, AdamW, Adagrad,
/// RMSprop, LBFGS, Adafactor, Lion, Muon, MuonWithAuxAdam and ScheduleFreeAdamW. Throws UsageError for any other class
/// whose state is not empty; the error names the class.
void map_state_tensors(torch::optim::Optimizer& optimizer,
                       const std::function<at::Tensor(const at::Tensor&)>& fn);

/// The names of parameters, "layer1.weight". A parameter without a name is called by its place,
/// "param_groups.0.3".
using ParameterNames = std::unordered_map<const at::TensorImpl*, std::string>;

/// Returns state and options under the keys of Python's optimizer.state_dict(), with parameters by
/// name:
///
///   {"class": "AdamW",
///    "state": {"layer1.weight": {"step": 12, "exp_avg": tensor, …}, …},
///    "param_groups": [{"lr": 1e-3, …, "params": ["layer1.weight", …]}, …]}
///
/// Tensors are the optimizer's, not copies. Throws UsageError for a class that is neither known
/// (see above) nor registered, and for two parameters with one name.
[[nodiscard]] StateDict optimizer_state_dict(torch::optim::Optimizer& optimizer,
                                             const ParameterNames& names);

/// Makes `optimizer` continue where the optimizer that wrote `state` was. Loads its state, and
/// options such as rates. Groups must hold the same parameters, in any order. Tensors are copied to
/// the parameters' devices. Throws CheckpointError for another class, other groups or parameters,
/// or state of another shape; nothing has changed then.
void load_optimizer_state_dict(torch::optim::Optimizer& optimizer, const StateDict& state,
                               const ParameterNames& names);

/// As load_optimizer_state_dict, in two steps: throws what that throws, and returns what loads
/// `state`. A registered class may refuse `state` only in the second step. `optimizer` must outlive
/// the result. Cost: a copy of the tensors on the parameters' devices, which the optimizer takes
/// over.
[[nodiscard]] CheckedState check_optimizer_state_dict(torch::optim::Optimizer& optimizer,
                                                      const StateDict& state,
                                                      const ParameterNames& names);

/// Says how the state of a user-defined optimizer class is saved.
template <typename Optimizer>
struct OptimizerCodec {
  std::string name;  ///< Its name in the checkpoint, "Lamb".
  std::function<StateDict(Optimizer&, const ParameterNames&)> state_dict;
  /// Must throw if `state` does not fit, without having changed anything.
  std::function<void(Optimizer&, const StateDict& state, const ParameterNames&)> load_state_dict;
};

namespace detail {
void register_codec(std::type_index type, OptimizerCodec<torch::optim::Optimizer> codec);
}

/// From now on, saves optimizers whose class is exactly `Optimizer` by `codec`. Thread-safe. Throws
/// UsageError if the class already has a codec, the name is taken, or a function is empty.
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
