// An optimizer that follows gradient accumulation and loss scaling. docs/optimizers.md says which
// steps are fused, what closures do, and how closely results agree with torch::optim.
#pragma once

#include <c10/core/Device.h>
#include <torch/optim/optimizer.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/comm/state/gradient_state.h"
#include "accelerate/optim/modal_optimizer.h"
#include "accelerate/optim/precision/grad_scaler.h"
#include "accelerate/tensor/nested.h"

namespace accelerate {

// Clipping that the launcher's file asks for, so that a loop need not know of it.

class AcceleratedOptimizer;

namespace detail {

/// From now on runs `clip` on the complete gradients before each step of `optimizer`; with a
/// closure, whenever the closure has computed them. Null ends that.
void clip_before_steps(const AcceleratedOptimizer& optimizer, std::function<void()> clip);

}  // namespace detail

class ModelParts;
namespace detail {
class FusedStep;
}

/// What prepare() makes of an optimizer: a handle on the user's optimizer, which must outlive it.
/// Copies share everything. SGD, Adam, AdamW and Adagrad step by LibTorch's fused kernels, on the
/// state that the user's optimizer keeps and saves.
class AcceleratedOptimizer {
 public:
  using Closure = torch::optim::Optimizer::LossClosure;
  struct Core;

  /// Moves the optimizer's state to `device` if one is given. `gradient_state` decides whether
  /// step() and zero_grad() act: while gradients only accumulate, they do nothing. `scaler`, if
  /// any, unscales the gradients before a step and skips the step if they overflowed.
  AcceleratedOptimizer(torch::optim::Optimizer& optimizer,
                       std::shared_ptr<GradientState> gradient_state,
                       std::shared_ptr<GradScaler> scaler = nullptr,
                       std::optional<c10::Device> device = std::nullopt);
  explicit AcceleratedOptimizer(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  /// Makes one step of the user's optimizer. Returns the closure's loss, or an undefined tensor.
  /// [collective with a scaler, and with a closure that communicates]
  ///
  /// LBFGS and user-defined optimizers call `closure` as often as they like. The other optimizers
  /// call it once, before the step, and may do so under a scaler too. Throws UsageError for a
  /// closure under a scaler if the number of calls is not known, and for gradients that were
  /// unscaled before the closure computed them. Also throws it for a step after a micro-batch that
  /// an exception ended.
  at::Tensor step(const Closure& closure = nullptr);
  /// Switches a ModalOptimizer, such as ScheduleFreeAdamW, to training. Does nothing for other
  /// optimizers, or if it is already in that mode. [collective if a switch changes a sharded model]
  void train() { set_mode(OptimizerMode::train); }
  /// Switches a ModalOptimizer to evaluation, as train(). Like a step, call it between two windows
  /// of gradient accumulation.
  void eval() { set_mode(OptimizerMode::eval); }

  /// Clears the gradients. By default they become undefined.
  void zero_grad(bool set_to_none = true);

  /// The number of steps that this process has made with it. Calls of step() that only accumulate,
  /// and skipped steps, do not count.
  [[nodiscard]] std::int64_t step_count() const;
  /// Whether the last step() was skipped because gradients were infinite or NaN.
  [[nodiscard]] bool step_was_skipped() const;
  /// Divides the gradients by the scale that the scaler gave the loss, once per step. [collective
  /// with a scaler]
  void unscale_gradients() const;
  /// Lets an optimizer whose updates are clipped make them now, unless a gradient overflowed; see
  /// ClipsUpdates. Unscales first. [collective with a scaler, and over a sharded model]
  void take_updates() const;
  /// Returns the gradients that exist, group by group, each once: parameters() of a LibTorch module
  /// lists tied weights as often as they are used.
  [[nodiscard]] std::vector<at::Tensor> gradients() const;

  /// From now on, averages over the ranks the losses that the optimizer sees through its closure.
  /// So all ranks decide alike (line search, when to stop). Affects LBFGS and user-defined
  /// optimizers; their step() becomes [collective].
  void share_losses(std::shared_ptr<Communicator> communicator);

  /// From now on, the groups hold this rank's parts of the parameters that `model` has sharded, and
  /// steps send them to all ranks: step() becomes [collective]. Does nothing if the groups hold no
  /// such parameters. Throws UsageError; see sharded_groups.h.
  void shard(const std::shared_ptr<ModelParts>& model);

  [[nodiscard]] std::vector<torch::optim::OptimizerParamGroup>& param_groups() {
    return optimizer().param_groups();
  }
  /// Adds a group. Parameters of a model that was given to shard() are replaced by this rank's
  /// parts.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);
  /// Options of groups that have none.
  [[nodiscard]] torch::optim::OptimizerOptions& defaults() const { return optimizer().defaults(); }
  /// What the optimizer remembers of each parameter, by the parameter's TensorImpl.
  [[nodiscard]] decltype(auto) state() const { return optimizer().state(); }
  /// Fails to compile where LibTorch wants an optimizer, with a sentence that says what to pass.
  template <typename T>
    requires std::is_same_v<T, torch::optim::Optimizer>
  operator T&() const {  // NOLINT: implicit, so that it is found
    static_assert(
        detail::kNoType<T>,
        "a prepared optimizer is not a torch::optim::Optimizer: give schedules and functions "
        "of LibTorch the optimizer behind it, torch::optim::StepLR(optimizer.optimizer(), "
        "3), and step the prepared one");
    return optimizer();
  }
  /// The user's optimizer. Save it by torch::save(handle.optimizer(), path).
  [[nodiscard]] torch::optim::Optimizer& optimizer() const;
  /// The scaler given to the constructor; may be null.
  [[nodiscard]] const std::shared_ptr<GradScaler>& scaler() const;
  [[nodiscard]] const std::shared_ptr<Core>& core() const { return core_; }
  /// The fused kernels' part of step(); null for other optimizers, and where step() also brings
  /// shards up to date.
  [[nodiscard]] detail::FusedStep* fused_step() const;

 private:
  void set_mode(OptimizerMode mode);

  std::shared_ptr<Core> core_;
};

}  // namespace accelerate
