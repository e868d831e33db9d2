// Gradient clipping, with the names and, bit for bit, the results of torch.nn.utils. The functions
// take parameters of any mixture of devices and dtypes. With an Accelerator call
// accelerator.clip_grad_norm_ instead, which unscales fp16 gradients first.
#pragma once

#include <ATen/core/Tensor.h>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/optim/accelerated_optimizer.h"

namespace accelerate::detail {

// The norm of gradients that are divided among ranks.

/// Tensors whose gradients are whole on every rank, or this rank's parts of gradients that `ranks`
/// hold together.
struct GradientPart {
  std::vector<at::Tensor> holders;
  Communicator* ranks = nullptr;
};

/// Returns the part over `ranks` among `parts`. Adds one if there is none.
[[nodiscard]] GradientPart& part_over(std::vector<GradientPart>& parts, Communicator& ranks);

/// As clip_grad_norm_ of all parts together. Returns the norm of the whole gradients, shape {}, the
/// same number on all ranks of `world`. Gradients that every rank has whole count with their mean
/// over the ranks. [collective over world and each part's ranks, also on ranks without gradients]
at::Tensor clip_grad_norm_of_parts_(const std::vector<GradientPart>& parts, Communicator& world,
                                    double max_norm, double norm_type);

// Clips gradients in a training loop with loss scaling.

/// Implements Accelerator::clip_grad_norm_: unscales the gradients of `optimizers`, clips the
/// gradients of `parameters` (see clip_grad_norm_) and returns their unscaled norm. If one
/// optimizer has exactly these gradients and the scale is a power of two, unscaling and clipping
/// are one multiplication. This takes two passes over the gradients instead of three, with the same
/// bits. [collective with a scaler]
at::Tensor unscale_and_clip_grad_norm_(const std::vector<AcceleratedOptimizer>& optimizers,
                                       const std::vector<at::Tensor>& parameters, double max_norm,
                                       double norm_type);

}  // namespace accelerate::detail

namespace accelerate {

/// Returns the p-norm of all `tensors` as if they were one vector. Shape {}, on the device of the
/// first tensor, in the widest of their dtypes. Without tensors it is 0, in fp32. `norm_type` is
/// any p but NaN: infinity gives the greatest absolute value, minus infinity the least, 0 the
/// number of elements that are not 0 (torch.nn.utils counts tensors). If a sparse tensor lists an
/// element in parts, their sum counts. Throws UsageError for NaN as p. With `error_if_nonfinite`
/// also throws it for a norm that is infinite or NaN, naming the first tensor that causes it. Cost:
/// one pass over the tensors. Waits for the device only with `error_if_nonfinite`. Source:
/// torch/nn/utils/clip_grad.py.
[[nodiscard]] at::Tensor get_total_norm(const std::vector<at::Tensor>& tensors,
                                        double norm_type = 2.0, bool error_if_nonfinite = false);

/// Multiplies the gradients of `parameters` by min(1, max_norm / (total_norm + 1e-6)), in place.
/// Skips undefined gradients and coalesces sparse ones. A parameter that is listed twice (a tied
/// weight) is multiplied once. `max_norm` is 0 or more; infinity changes nothing. A norm of NaN
/// makes every gradient NaN. Throws UsageError if `max_norm` is negative or NaN. Cost: one pass;
/// none on the CPU if the norm is small enough.
void clip_grads_with_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                           const at::Tensor& total_norm);

/// Scales the gradients of `parameters` so that their total norm is at most `max_norm`, in place.
/// Returns the norm before that, as get_total_norm does. An infinite `max_norm` only measures.
/// Throws what the two functions above throw, before any gradient is changed. Local: ranks agree
/// because data-parallel gradients are equal.
at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                           double norm_type = 2.0, bool error_if_nonfinite = false);
at::Tensor clip_grad_norm_(const at::Tensor& parameter, double max_norm, double norm_type = 2.0,
                           bool error_if_nonfinite = false);

/// Clamps every element of the gradients to [-clip_value, clip_value], in place; NaN stays NaN.
/// `clip_value` is 0 or more. Beyond a dtype's range, its greatest number is used. Throws
/// UsageError if `clip_value` is negative or NaN, and for complex gradients, which have no order.
void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value);
void clip_grad_value_(const at::Tensor& parameter, double clip_value);

namespace detail {

/// Returns the gradients that `parameters` have, each once.
[[nodiscard]] std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters);
/// Throws UsageError unless `bound` is 0 or more. The error names `function`, `name` and `bound`.
void check_clip_bound(const char* function, const char* name, double bound);
/// Returns min(1, max_norm / (total_norm + 1e-6)), shape {}, as torch.nn.utils computes it.
[[nodiscard]] at::Tensor clip_coefficient(const at::Tensor& total_norm, double max_norm);
/// Multiplies dense `tensors` of any devices and dtypes by `factor` (shape {}), in place.
void multiply_all_(const std::vector<at::Tensor>& tensors, const at::Tensor& factor);

}  // namespace detail

}  // namespace accelerate
