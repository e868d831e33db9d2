// An optimizer that takes part in the training loop's decisions. docs/optimizers.md says which
// steps are fused, what closures do, and how far results agree with torch::optim.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <torch/optim/optimizer.h>

#include "accelerate/comm/communicator.h"
#include "accelerate/optim/modal_optimizer.h"
#include "accelerate/precision/grad_scaler.h"
#include "accelerate/state/gradient_state.h"

namespace accelerate {

class FullyShardedDataParallel;

/// What prepare() makes of an optimizer: a handle on the user's own, which must outlive it. Copies
/// share everything. SGD, Adam, AdamW and Adagrad step by LibTorch's fused kernels, on the state
/// that the user's optimizer keeps and saves.
class AcceleratedOptimizer {
 public:
  using Closure = torch::optim::Optimizer::LossClosure;
  struct Core;

  /// Moves the optimizer's state to `device` when one is given. `gradient_state` decides whether
  /// step() and zero_grad() act: while gradients only accumulate, they do nothing. `scaler`, when
  /// there is one, unscales the gradients before a step and skips those that overflowed.
  AcceleratedOptimizer(torch::optim::Optimizer& optimizer,
                       std::shared_ptr<GradientState> gradient_state,
                       std::shared_ptr<GradScaler> scaler = nullptr,
                       std::optional<c10::Device> device = std::nullopt);
  explicit AcceleratedOptimizer(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  /// One step of the user's optimizer; the closure's loss, or an undefined tensor. [collective with
  /// a scaler, and with a closure that communicates]
  ///
  /// LBFGS and optimizers of the user's own call `closure` as often as they like. The others call
  /// it once, before the step, and may do so under a scaler too. Throws UsageError: a closure under
  /// a scaler where the number of calls is not known; gradients unscaled before the closure made
  /// them; a step after a micro-batch that an exception ended.
  at::Tensor step(const Closure& closure = nullptr);
  /// Switches a ModalOptimizer, as ScheduleFreeAdamW, to training; does nothing for others and when
  /// it is in that mode already. [collective where a switch changes a sharded model]
  void train() { set_mode(OptimizerMode::train); }
  /// Switches a ModalOptimizer to evaluation, as train(). Call it between two windows of
  /// gradient accumulation, as a step.
  void eval() { set_mode(OptimizerMode::eval); }

  /// Clears the gradients, by default by dropping them.
  void zero_grad(bool set_to_none = true);

  /// Whether the last step() was left out because gradients were infinite or NaN.
  [[nodiscard]] bool step_was_skipped() const;
  /// Divides the gradients by the factor that the scaler gave the loss, once a step. [collective
  /// with a scaler]
  void unscale_gradients() const;
  /// The gradients there are, group by group, each once: parameters() of a LibTorch module lists
  /// tied weights as often as they are used.
  [[nodiscard]] std::vector<at::Tensor> gradients() const;

  /// From now on the losses that an optimizer sees through its closure are means over the ranks, so
  /// that all ranks take the same decisions (line search, when to stop). Concerns LBFGS and
  /// optimizers of the user's own, which make step() [collective] by it.
  void share_losses(std::shared_ptr<Communicator> communicator);

  /// From now on the groups hold this rank's parts of the parameters that `model` has sharded, and
  /// steps bring them to all ranks: step() is [collective] by it. Does nothing when they hold none.
  /// Throws UsageError; see sharded_groups.h.
  void shard(const std::shared_ptr<FullyShardedDataParallel>& model);

  [[nodiscard]] std::vector<torch::optim::OptimizerParamGroup>& param_groups() {
    return optimizer().param_groups();
  }
  /// Of parameters that a model of shard() has, this rank's parts.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);
  /// Options of groups that bring none.
  [[nodiscard]] torch::optim::OptimizerOptions& defaults() const { return optimizer().defaults(); }
  /// What the optimizer remembers of each parameter, by its TensorImpl.
  [[nodiscard]] decltype(auto) state() const { return optimizer().state(); }
  /// The user's optimizer, to be saved by torch::save(handle.optimizer(), path).
  [[nodiscard]] torch::optim::Optimizer& optimizer() const;
  /// The scaler that it was made with; may be null.
  [[nodiscard]] const std::shared_ptr<GradScaler>& scaler() const;
  [[nodiscard]] const std::shared_ptr<Core>& core() const { return core_; }

 private:
  void set_mode(OptimizerMode mode);

  std::shared_ptr<Core> core_;
};

}  // namespace accelerate
