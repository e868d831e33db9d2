// Gives other memory to a tensor to which many handles refer. Tensor::set_data does this between
// devices of one kind, but refuses to leave the meta device. Its last step does not refuse; this
// file calls that step directly.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::compat {

/// Gives `leaf` the storage, shape, strides, dtype and device of `data`; both then share the
/// memory. `leaf` stays the same TensorImpl, so every handle sees the change (a module's entry and
/// its member, an optimizer's parameter). It stays a leaf, and keeps requires_grad, its version
/// counter and the hooks that were registered on the tensor. Hooks on its gradient accumulator's
/// node stay only if dtype, device and shape do. A gradient of another shape or device is dropped.
/// A view is no longer a view of its base. `leaf` is usually of the meta device, of any shape and
/// dtype. `data` may be on any device; its requires_grad does not matter. Both must be dense and
/// strided. Local. Throws UsageError, and changes nothing, for a tensor that is not a leaf, and for
/// sparse, quantised, nested and inference tensors. Throws it also for whole numbers in a leaf that
/// requires gradients. Cost: nanoseconds, no copy. Not safe against a concurrent use of `leaf`.
void materialise_(const at::Tensor& leaf, const at::Tensor& data);

}  // namespace accelerate::compat
