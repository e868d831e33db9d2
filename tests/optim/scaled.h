// Optimizers and gradients under a loss scaler.
#pragma once

#include <torch/torch.h>

#include <memory>

#include "accelerate/optim/accelerated_optimizer.h"

namespace accelerate::testing {

/// Optimizers under one scaler.
struct Scaled {
  explicit Scaled(const GradScalerKwargs& kwargs = {})
      : scaler(std::make_shared<GradScaler>(c10::Device("cpu"), single_communicator(), kwargs)) {}

  AcceleratedOptimizer prepare(torch::optim::Optimizer& optimizer) const {
    return {optimizer, std::make_shared<GradientState>(), scaler};
  }
  /// Leaves the gradient that a backward through a scaled loss leaves.
  void backward(at::Tensor& leaf, const at::Tensor& gradient) const {
    (void)scaler->scale(torch::ones({}));
    leaf.mutable_grad() = gradient * scaler->gradient_scale();
  }

  std::shared_ptr<GradScaler> scaler;
};

}  // namespace accelerate::testing
