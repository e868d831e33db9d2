// A Communicator over any c10d::Backend.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/comm/deadline.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace accelerate {

namespace detail {
class LocalPeers;
class SharedGroup;
}  // namespace detail

/// How an engine differs from Gloo.
struct C10dTraits {
  bool moves_every_dtype = false;  ///< If not, tensors that are only moved are sent as bytes.
  bool has_mean = false;           ///< If not, a mean is a sum that is divided afterwards.
  /// Performs a reduce-scatter as an all-reduce of a copy. Gloo's own reduce-scatter does the same,
  /// but never reports a failure.
  bool scatters_by_all_reduce = false;
  bool ends_when_aborted = false;   ///< If not, its destructor waits for aborted operations.
  bool knows_who_is_there = false;  ///< Has a SharedGroup, which sees that a rank has died.
  /// Allocates memory that the engine uses without a copy; empty: LibTorch's allocator.
  std::function<at::Tensor(at::IntArrayRef, const at::TensorOptions&)> empty = {};
};

/// What a group talks through; see Communicator::c10d().
struct C10dConnection {
  c10::intrusive_ptr<c10d::Store> store;  ///< Shared by exactly the ranks of the group.
  c10::intrusive_ptr<c10d::Backend> backend;
  std::shared_ptr<detail::SharedGroup> shared = nullptr;  ///< When the ranks share memory.
};

struct C10dGroup {
  c10::intrusive_ptr<c10d::Store> store;  ///< Shared by exactly the ranks of the group.
  int rank = 0;
  int size = 1;
  GroupTimes times{std::chrono::minutes(30)};
  c10::Device device = c10::kCPU;  ///< The device of the tensors that the engine takes.
  C10dTraits traits = {};
  /// Connects the ranks of a group; called again for sub-groups. May call `look` while it waits.
  std::function<C10dConnection(const C10dGroup&, const std::function<void()>& look)> connect = {};
  /// Called while the ranks of a sub-group join; throws when a rank will never join.
  std::function<void()> look = {};
};

/// Joins `group` and returns its communicator. [collective] Throws CommError.
[[nodiscard]] std::shared_ptr<Communicator> make_c10d_communicator(C10dGroup group);

/// Makes a Gloo group over `store`; peers connect to `address` of this machine. [collective]
[[nodiscard]] std::shared_ptr<Communicator> make_gloo_communicator(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, const GroupTimes& times,
    const std::string& address = "127.0.0.1");

/// Makes a group over shared memory of this host. `peers` comes from detail::meet_hosts and holds
/// the processes of all ranks. [collective]
[[nodiscard]] std::shared_ptr<Communicator> make_shared_memory_communicator(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, const GroupTimes& times,
    std::shared_ptr<detail::LocalPeers> peers);

/// Makes an NCCL group over `store` for tensors on `device`; each rank needs a different device.
/// wait() orders the device's current stream behind the result and does not block. [collective]
/// Throws ConfigError when the library was compiled without NCCL.
[[nodiscard]] std::shared_ptr<Communicator> make_nccl_communicator(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, const GroupTimes& times,
    c10::Device device);

}  // namespace accelerate
