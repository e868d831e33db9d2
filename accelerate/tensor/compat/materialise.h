// Other memory for a tensor that many handles refer to. Tensor::set_data does this between devices
// of one kind and refuses to leave the meta device; the step that it ends in does not, and is taken
// here.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::compat {

/// From now on `leaf` has the storage, shape, strides, dtype and device of `data`, which it shares.
/// It stays the same TensorImpl, so that every handle sees the change (a module's entry and its
/// member, an optimizer's parameter), stays a leaf, and keeps requires_grad, its version counter,
/// and the hooks that were registered on the tensor; those on its gradient accumulator's node stay
/// only while dtype, device and shape do. A gradient of another shape or device is dropped. What
/// was a view of another tensor is one no more. `leaf` is usually of the meta device, of any shape
/// and dtype; `data` is of any device, and is taken as values: whether it requires gradients does
/// not matter. Both are dense and strided. Local. Throws UsageError, and then nothing changed, for
/// a tensor that is no leaf, for sparse, quantised, nested and inference tensors, and for whole
/// numbers in a leaf that requires gradients. Cost: nanoseconds, no copy. Not safe against a
/// concurrent use of `leaf`.
void materialise_(const at::Tensor& leaf, const at::Tensor& data);

}  // namespace accelerate::compat
