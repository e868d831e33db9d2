// Clips gradients in a training loop with loss scaling.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accelerate/optim/accelerated_optimizer.h"

namespace accelerate::detail {

/// Implements Accelerator::clip_grad_norm_: unscales the gradients of `optimizers`, clips the
/// gradients of `parameters` (see clip_grad_norm_) and returns their unscaled norm. If one
/// optimizer has exactly these gradients and the scale is a power of two, unscaling and clipping
/// are one multiplication. This takes two passes over the gradients instead of three, with the same
/// bits. [collective with a scaler]
at::Tensor unscale_and_clip_grad_norm_(const std::vector<AcceleratedOptimizer>& optimizers,
                                       const std::vector<at::Tensor>& parameters, double max_norm,
                                       double norm_type);

}  // namespace accelerate::detail
