// A Communicator over any c10d::Backend.
#pragma once

#include <memory>
#include <string>

#include "accelerate/comm/c10d_group.h"
#include "accelerate/comm/communicator.h"

namespace accelerate {

namespace detail {
class LocalPeers;
}

/// Joins `group` and returns its communicator. [collective] Throws CommError.
[[nodiscard]] std::shared_ptr<Communicator> make_c10d_communicator(C10dGroup group);

/// Makes a Gloo group over `store`; peers connect to `address` of this machine. [collective]
[[nodiscard]] std::shared_ptr<Communicator> make_gloo_communicator(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, const GroupTimes& times,
    const std::string& address = "127.0.0.1", detail::GroupLabel label = {});

/// Makes a group over shared memory of this host. `peers` comes from detail::meet_hosts and holds
/// the processes of all ranks. [collective]
[[nodiscard]] std::shared_ptr<Communicator> make_shared_memory_communicator(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, const GroupTimes& times,
    std::shared_ptr<detail::LocalPeers> peers, detail::GroupLabel label = {});

/// Makes an NCCL group over `store` for tensors on `device`; each rank needs a different device.
/// wait() orders the device's current stream behind the result and does not block. [collective]
/// Throws ConfigError without libaccelerate_cuda.so, or when it does not fit LibTorch.
[[nodiscard]] std::shared_ptr<Communicator> make_nccl_communicator(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, const GroupTimes& times,
    c10::Device device, detail::GroupLabel label = {});

}  // namespace accelerate
