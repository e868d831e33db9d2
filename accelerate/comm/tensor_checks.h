// A collective that first asks which rank holds a tensor, and a check for debug mode.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

// Checks of the arguments of a collective that all engines share, so that a mistake gives the same
// message over every engine. All are local and throw UsageError.

/// Checks that `rank` belongs to a group of `size` ranks.
void check_peer(int rank, int size);

/// Checks that the `ranks` to be split off are distinct and belong to a group of `size` ranks.
void check_members(const std::vector<int>& ranks, int size);

/// Checks that `whole` has the dtype of `part` and `size` times as many elements. `what` begins the
/// message.
void check_parts(const char* what, const at::Tensor& part, const at::Tensor& whole, int size);

}  // namespace accelerate::detail

namespace accelerate {

/// Throws UsageError unless all defined `tensors` are on a device of `device`'s type. Local.
void require_device(const std::vector<at::Tensor>& tensors, c10::Device device,
                    const std::string& operation);

/// Copies the tensor of one rank to all ranks. The other ranks pass an undefined tensor and need to
/// know neither shape nor dtype. The result lies on the CPU. [collective] Throws CommError on all
/// ranks unless exactly one has a tensor.
[[nodiscard]] at::Tensor copy_tensor_to_devices(Communicator& communicator,
                                                const at::Tensor& tensor = {});

}  // namespace accelerate
