// Which elements dropout keeps.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::detail {

/// {shape of `like`}, bool, as at::empty_like lays it out: true with probability `p`, of 0 to 1.
/// `like`: on the CPU. Draws what Tensor::bernoulli_ would draw from the default generator, and
/// leaves the generator as it would. Cost: on one core with AVX2 about a quarter of what LibTorch
/// takes, which asks the generator element by element.
[[nodiscard]] at::Tensor bernoulli_mask(const at::Tensor& like, double p);

}  // namespace accelerate::detail
