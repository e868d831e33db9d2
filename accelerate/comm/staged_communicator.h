// Tensors of any device over an engine that takes those of one.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "accelerate/comm/communicator.h"

namespace accelerate {

/// A communicator over `engine`, which takes tensors on `device` only: others are copied there, and
/// results back by wait(). So models on GPUs train over Gloo, and small integers on the CPU travel
/// over NCCL. Cost: those copies, into memory of engine->empty(); none for tensors that lie on
/// `device`.
[[nodiscard]] std::shared_ptr<Communicator> stage_on(std::shared_ptr<Communicator> engine,
                                                     c10::Device device);

namespace detail {
/// The engine that `communicator` was made over by stage_on; `communicator` itself for others.
[[nodiscard]] const Communicator& engine_behind(const Communicator& communicator);
}  // namespace detail

}  // namespace accelerate
