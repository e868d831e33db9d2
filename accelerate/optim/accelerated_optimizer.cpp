#include "accelerate/optim/accelerated_optimizer.h"

#include <utility>

#include "accelerate/optim/optimizer_state.h"

namespace accelerate {

AcceleratedOptimizer::AcceleratedOptimizer(torch::optim::Optimizer& optimizer,
                                           std::shared_ptr<GradientState> gradient_state,
                                           std::optional<c10::Device> device)
    : optimizer_(&optimizer), gradient_state_(std::move(gradient_state)) {
  if (device) {
    map_state_tensors(optimizer, [device](const at::Tensor& tensor) { return tensor.to(*device); });
  }
}

at::Tensor AcceleratedOptimizer::step(const Closure& closure) {
  if (!gradient_state_->sync_gradients) return {};
  return optimizer_->step(closure);
}

void AcceleratedOptimizer::zero_grad(bool set_to_none) {
  if (gradient_state_->sync_gradients) optimizer_->zero_grad(set_to_none);
}

}  // namespace accelerate
