// Communicates tensors of any device over an engine that takes tensors of one device.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "accelerate/comm/communicator.h"

namespace accelerate {

/// Returns a communicator over `engine`, which takes tensors on `device` only. Other tensors are
/// copied there, and wait() copies the results back. So models on GPUs train over Gloo, and small
/// integers on the CPU travel over NCCL. Cost: the copies, into memory of engine->empty(); none for
/// tensors that lie on `device`.
[[nodiscard]] std::shared_ptr<Communicator> stage_on(std::shared_ptr<Communicator> engine,
                                                     c10::Device device);

}  // namespace accelerate
