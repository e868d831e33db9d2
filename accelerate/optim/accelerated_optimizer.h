// An optimizer that takes part in the training loop's decisions.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <optional>

#include <torch/optim/optimizer.h>

#include "accelerate/state/gradient_state.h"

namespace accelerate {

/// What prepare() makes of an optimizer: a handle on the user's own, which must outlive it. Cheap
/// to copy.
class AcceleratedOptimizer {
 public:
  using Closure = torch::optim::Optimizer::LossClosure;

  /// Moves the optimizer's state to `device` when one is given. `gradient_state` decides whether
  /// step() and zero_grad() act: while gradients only accumulate, they do nothing.
  AcceleratedOptimizer(torch::optim::Optimizer& optimizer,
                       std::shared_ptr<GradientState> gradient_state,
                       std::optional<c10::Device> device = std::nullopt);

  /// One step of the user's optimizer; the closure's loss, or an undefined tensor.
  at::Tensor step(const Closure& closure = nullptr);
  /// Clears the gradients, by default by dropping them.
  void zero_grad(bool set_to_none = true);

  [[nodiscard]] std::vector<torch::optim::OptimizerParamGroup>& param_groups() {
    return optimizer_->param_groups();
  }
  void add_param_group(const torch::optim::OptimizerParamGroup& group) {
    optimizer_->add_param_group(group);
  }
  /// The user's optimizer.
  [[nodiscard]] torch::optim::Optimizer& optimizer() { return *optimizer_; }

 private:
  torch::optim::Optimizer* optimizer_;
  std::shared_ptr<GradientState> gradient_state_;
};

}  // namespace accelerate
