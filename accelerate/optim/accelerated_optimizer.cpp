#include "accelerate/optim/accelerated_optimizer.h"

#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/optim/optimizer_state.h"

namespace accelerate {

struct AcceleratedOptimizer::Core {
  torch::optim::Optimizer* optimizer;
  std::shared_ptr<GradientState> gradient_state;
  std::shared_ptr<GradScaler> scaler;
  bool step_was_skipped = false;

  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> found;
    for (const auto& group : optimizer->param_groups()) {
      for (const auto& leaf : group.params()) {
        if (leaf.grad().defined()) found.push_back(leaf.grad());
      }
    }
    return found;
  }
};

AcceleratedOptimizer::AcceleratedOptimizer(torch::optim::Optimizer& optimizer,
                                           std::shared_ptr<GradientState> gradient_state,
                                           std::shared_ptr<GradScaler> scaler,
                                           std::optional<c10::Device> device)
    : core_(std::make_shared<Core>(&optimizer, std::move(gradient_state), std::move(scaler))) {
  if (device) {
    map_state_tensors(optimizer, [device](const at::Tensor& tensor) { return tensor.to(*device); });
  }
}

at::Tensor AcceleratedOptimizer::step(const Closure& closure) {
  if (core_->gradient_state->micro_batch_failed) {
    throw UsageError(
        "step() after a micro-batch that an exception ended: its gradients are incomplete. Run the "
        "micro-batch again under accumulate(), or drop its gradients with zero_grad()");
  }
  if (!core_->gradient_state->sync_gradients) return {};
  if (!core_->scaler) return optimizer().step(closure);
  unscale_gradients();
  core_->step_was_skipped = core_->scaler->found_inf(&optimizer());
  const at::Tensor loss = core_->step_was_skipped ? at::Tensor() : optimizer().step(closure);
  core_->scaler->update(&optimizer());
  return loss;
}

void AcceleratedOptimizer::zero_grad(bool set_to_none) {
  if (core_->gradient_state->micro_batch_failed) {
    core_->gradient_state->reset();
  } else if (!core_->gradient_state->sync_gradients) {
    return;
  }
  optimizer().zero_grad(set_to_none);
}

bool AcceleratedOptimizer::step_was_skipped() const {
  return core_->step_was_skipped;
}

void AcceleratedOptimizer::unscale_gradients() const {
  if (core_->scaler) core_->scaler->unscale_(&optimizer(), core_->gradients());
}

torch::optim::Optimizer& AcceleratedOptimizer::optimizer() const {
  return *core_->optimizer;
}

}  // namespace accelerate
