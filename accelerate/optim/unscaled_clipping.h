// Clipping in a training loop with loss scaling.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accelerate/optim/accelerated_optimizer.h"

namespace accelerate::detail {

/// What Accelerator::clip_grad_norm_ does: unscales the gradients of `optimizers`, then clips
/// those of `parameters` (see clip_grad_norm_) and returns their norm, unscaled. Where one
/// optimizer has just these gradients and the scale is a power of two, both divisions are one:
/// three passes over the gradients become two, with the same bits. [collective with a scaler]
at::Tensor unscale_and_clip_grad_norm_(const std::vector<AcceleratedOptimizer>& optimizers,
                                       const std::vector<at::Tensor>& parameters, double max_norm,
                                       double norm_type);

}  // namespace accelerate::detail
