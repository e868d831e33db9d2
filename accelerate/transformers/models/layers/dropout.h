// Dropout that keeps one byte per element for backward, where LibTorch keeps its factors in the
// element type.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::detail {

// Draws which elements dropout keeps.

/// Returns a bool tensor in the shape and layout of at::empty_like(like): true with probability
/// `p`, from 0 to 1. `like` is on the CPU. Draws what Tensor::bernoulli_ would draw from the
/// default generator, and leaves the generator in the same state. Cost: on one core with AVX-512,
/// a tenth of the time of LibTorch, which asks the generator for each element.
[[nodiscard]] at::Tensor bernoulli_mask(const at::Tensor& like, double p);

/// As at::dropout, with the same draws, values and gradients to the bit. While training, an element
/// becomes zero with probability `p`, and is multiplied by 1 / (1 - p) otherwise. input: any shape,
/// floating-point. Source: Srivastava et al. 2014.
[[nodiscard]] at::Tensor dropout_of(const at::Tensor& input, double p, bool training);

/// Returns input · mask / share, in the layout of `mask`, with derivatives of any order: what
/// dropout_of() does with its mask.
[[nodiscard]] at::Tensor kept_of_dropout(const at::Tensor& input, const at::Tensor& mask,
                                         double share);

}  // namespace accelerate::detail
