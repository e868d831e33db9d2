// Where ranks that were started apart become one group.
#pragma once

#include <memory>

#include "accelerate/comm/communicator.h"
#include "accelerate/config/rendezvous.h"

namespace accelerate {

/// Meets the other ranks at options.master_addr:master_port and returns the group of all; a group
/// of one for world_size 1. [collective]
///
/// Rank 0 hosts the store unless the launcher does. The store listens on the address of master_addr
/// and on no other; Gloo's connections listen on the local address that leads there. Waiting is
/// logged every 5 s. Throws CommError within options.timeout: the port is taken, the address is not
/// of this machine (rank 0), nobody answers there (others), ranks are missing.
[[nodiscard]] std::shared_ptr<Communicator> rendezvous(const RendezvousOptions& options);

}  // namespace accelerate
