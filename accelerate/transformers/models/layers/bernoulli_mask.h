// Draws which elements dropout keeps.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::detail {

/// Returns a bool tensor in the shape and layout of at::empty_like(like): true with probability
/// `p`, from 0 to 1. `like` is on the CPU. Draws what Tensor::bernoulli_ would draw from the
/// default generator, and leaves the generator in the same state. Cost: on one core with AVX2,
/// about a quarter of the time of LibTorch, which asks the generator for each element.
[[nodiscard]] at::Tensor bernoulli_mask(const at::Tensor& like, double p);

}  // namespace accelerate::detail
