// Gradient clipping, with the names and, bit for bit, the results of torch.nn.utils; free functions
// on parameters of any mixture of devices and dtypes. Inside a training loop with an Accelerator
// call accelerator.clip_grad_norm_, which unscales fp16 gradients first.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace accelerate {

/// The p-norm of all `tensors` as if they were one vector; shape {}, on the device of the first, in
/// the widest of their dtypes (fp32 for no tensors: 0). `norm_type`: any p but NaN; infinity is the
/// greatest absolute value, minus infinity the least, 0 counts what is not 0 (torch.nn.utils counts
/// tensors). Elements that a sparse tensor lists in parts count as their sum. Throws UsageError for
/// NaN and, with `error_if_nonfinite`, for a norm that is infinite or NaN, naming the first tensor
/// to blame.
/// Cost: one pass over the tensors; waits for the device only with `error_if_nonfinite`.
/// Source: torch/nn/utils/clip_grad.py.
[[nodiscard]] at::Tensor get_total_norm(const std::vector<at::Tensor>& tensors,
                                        double norm_type = 2.0, bool error_if_nonfinite = false);

/// Multiplies the gradients of `parameters` by min(1, max_norm / (total_norm + 1e-6)), in place.
/// Undefined gradients are passed over, sparse ones are coalesced, those of parameters that come
/// twice (tied weights) are multiplied once. `max_norm`: 0 or more; infinity touches nothing. A
/// norm of NaN makes every gradient NaN. Throws UsageError for a negative `max_norm` or NaN. Cost:
/// one pass, none on the CPU when the norm is small enough.
void clip_grads_with_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                           const at::Tensor& total_norm);

/// Scales the gradients of `parameters` so that their total norm is at most `max_norm`, in place.
/// Returns the norm before that, as get_total_norm of the gradients; infinity for `max_norm` only
/// measures. Throws what the two functions above throw, before any gradient is changed. Local:
/// ranks agree because data-parallel gradients are equal.
at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                           double norm_type = 2.0, bool error_if_nonfinite = false);
at::Tensor clip_grad_norm_(const at::Tensor& parameter, double max_norm, double norm_type = 2.0,
                           bool error_if_nonfinite = false);

/// Clamps every element of the gradients to [-clip_value, clip_value], in place; NaN stays NaN.
/// `clip_value`: 0 or more, beyond a dtype's range its greatest number. Throws UsageError for a
/// negative one, NaN, and complex gradients, which have no order.
void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value);
void clip_grad_value_(const at::Tensor& parameter, double clip_value);

namespace detail {

/// The gradients that `parameters` have, each once.
[[nodiscard]] std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters);
/// Throws UsageError that names all three unless `bound` is 0 or more.
void check_clip_bound(const char* function, const char* name, double bound);
/// min(1, max_norm / (total_norm + 1e-6)), shape {}, as torch.nn.utils computes it.
[[nodiscard]] at::Tensor clip_coefficient(const at::Tensor& total_norm, double max_norm);
/// Multiplies dense `tensors` of any devices and dtypes by `factor` (shape {}), in place.
void multiply_all_(const std::vector<at::Tensor>& tensors, const at::Tensor& factor);

}  // namespace detail

}  // namespace accelerate
