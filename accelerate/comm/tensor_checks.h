// Collectives that need to know first what the other ranks hold, and a check for debug mode.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate {

/// Throws UsageError unless all defined `tensors` are on a device of `device`'s type. Local.
void require_device(const std::vector<at::Tensor>& tensors, c10::Device device,
                    const std::string& operation);

/// The tensor that one rank has, on all of them; the others pass an undefined one and need to know
/// neither shape nor dtype. It lies on the CPU where it was not. [collective] Throws CommError on
/// all ranks when none or several have one.
[[nodiscard]] at::Tensor copy_tensor_to_devices(Communicator& communicator,
                                                const at::Tensor& tensor = {});

}  // namespace accelerate
