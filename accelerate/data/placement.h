// Where the tensors of a batch lie.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace accelerate::detail {

/// Replaces `tensor` by its copy on `device`; nothing happens when it is there or undefined. Does
/// not wait for the copy when `non_blocking` or when the tensor is page-locked.
void move_to_device(at::Tensor& tensor, c10::Device device, bool non_blocking);

/// Replaces a CPU tensor by a page-locked copy, from which a GPU reads without the help of the CPU.
void pin_for_device(at::Tensor& tensor);

}  // namespace accelerate::detail
