// Connects ranks that were started separately to one group.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "accelerate/comm/communicator.h"
#include "accelerate/launch/config/rendezvous_options.h"

namespace accelerate {

/// What a group runs on.
struct EngineOptions {
  c10::Device device = c10::kCPU;  ///< Where this rank computes; other tensors are copied.
  /// "shared_memory", "gloo" or "nccl". Empty: nccl if `device` is a GPU, else the value of
  /// ACCELERATE_COMM, else shared memory within a host and Gloo between hosts. "shared_memory" and
  /// "gloo" work with GPUs too, also with several ranks on one GPU, at the cost of copies to the
  /// CPU and back.
  std::string backend = {};
};

/// Meets the other ranks at options.master_addr:master_port and returns the group of all ranks; a
/// group of one if world_size is 1. [collective]
///
/// Rank 0 hosts the store unless the launcher does. The store listens on the address of master_addr
/// and on no other. Gloo listens on the local address from which the store is reached. Waiting is
/// logged every 5 s. Throws CommError within options.timeout if ranks are missing; on rank 0 if the
/// port is taken or the address is not one of this machine; on other ranks if nobody answers.
/// Throws ConfigError if the backend is unknown, not compiled in, or does not suit the device.
[[nodiscard]] std::shared_ptr<Communicator> rendezvous(const RendezvousOptions& options,
                                                       const EngineOptions& engine = {});

}  // namespace accelerate
