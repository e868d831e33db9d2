// Where ranks that were started apart become one group.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "accelerate/comm/communicator.h"
#include "accelerate/config/rendezvous.h"

namespace accelerate {

/// What a group runs on.
struct EngineOptions {
  c10::Device device = c10::kCPU;  ///< Where this rank computes; tensors of others are copied.
  /// "shared_memory", "gloo" or "nccl"; empty: nccl when `device` is a GPU, else what
  /// ACCELERATE_COMM says, else shared memory on one host and Gloo on several. The first two take
  /// GPUs too, and several ranks on one, at the cost of copies to the CPU and back.
  std::string backend = {};
};

/// Meets the other ranks at options.master_addr:master_port and returns the group of all; a group
/// of one for world_size 1. [collective]
///
/// Rank 0 hosts the store unless the launcher does. The store listens on the address of master_addr
/// and on no other; Gloo's connections listen on the local address that leads there. Waiting is
/// logged every 5 s. Throws CommError within options.timeout: the port is taken, the address is not
/// of this machine (rank 0), nobody answers there (others), ranks are missing. ConfigError: a
/// backend that there is not, or that does not go with the device.
[[nodiscard]] std::shared_ptr<Communicator> rendezvous(const RendezvousOptions& options,
                                                       const EngineOptions& engine = {});

}  // namespace accelerate
