// Tensors that require a gradient without being a leaf and without being computed.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::compat {

/// Returns a tensor over the memory of `data` that requires a gradient and is no leaf: operators may
/// change it and its views in place. Backward ends at it. Cost: nanoseconds, no copy.
[[nodiscard]] at::Tensor with_gradient(const at::Tensor& data);

}  // namespace accelerate::compat
