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

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace accelerate {

namespace detail {
class LocalPeers;
}

/// How an engine differs from Gloo.
struct C10dTraits {
  bool moves_every_dtype = false;  ///< If not, tensors that are only moved are sent as bytes.
  bool has_mean = false;           ///< If not, a mean is a sum that is divided afterwards.
  /// Performs a reduce-scatter as an all-reduce of a copy. Gloo's own reduce-scatter does the same,
  /// but never reports a failure.
  bool scatters_by_all_reduce = false;
  bool ends_when_aborted = false;  ///< If not, its destructor waits for aborted operations.
  /// Allocates memory that the engine uses without a copy; empty: LibTorch's allocator.
  std::function<at::Tensor(at::IntArrayRef, const at::TensorOptions&)> empty = {};
  /// Throws CommError when one of the ranks has given up, left or died; empty if the engine cannot
  /// tell.
  std::function<void(c10d::Backend&, const std::vector<int>&)> require_presence_of = {};
};

struct C10dGroup {
  c10::intrusive_ptr<c10d::Store> store;  ///< Shared by exactly the ranks of the group.
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{std::chrono::minutes(30)};
  c10::Device device = c10::kCPU;  ///< The device of the tensors that the engine takes.
  C10dTraits traits = {};
  /// Makes the engine of a group; called again for sub-groups. May call `look` while it waits.
  std::function<c10::intrusive_ptr<c10d::Backend>(const C10dGroup&,
                                                  const std::function<void()>& look)>
      make_backend = {};
  /// Called while the ranks of a sub-group join; throws when a rank will never join.
  std::function<void()> look = {};
};

/// Joins `group` and returns its communicator. [collective] Throws CommError.
[[nodiscard]] std::shared_ptr<Communicator> make_c10d_communicator(C10dGroup group);

/// Makes a Gloo group over `store`; peers connect to `address` of this machine. [collective]
[[nodiscard]] std::shared_ptr<Communicator> make_gloo_communicator(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout,
    const std::string& address = "127.0.0.1");

/// Makes a group over shared memory of this host. `peers` comes from detail::meet_hosts and holds
/// the processes of all ranks. [collective]
[[nodiscard]] std::shared_ptr<Communicator> make_shared_memory_communicator(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout,
    std::shared_ptr<detail::LocalPeers> peers);

/// Connects a group anew after it was aborted, on all its ranks. Operations under way fail. Groups
/// split off from it are aborted, and stay aborted. Does nothing for a group of one. [collective]
/// Throws CommError. Cost: as for making the group; the memory of the old connections is not freed.
void renew(Communicator& communicator);

/// Returns how often the group was connected anew. The same on all ranks. Local.
[[nodiscard]] int renewals(const Communicator& communicator);

/// Whether the group performs a reduce-scatter as an all-reduce. The all-reduce works on a copy of
/// the input, unless the output is this rank's part of the input. Local.
[[nodiscard]] bool scatters_by_all_reduce(const Communicator& communicator);

/// Lets `part`, which was split off from `whole`, live on when `whole` is aborted. Without this
/// call a part is aborted with the whole, so that nobody waits in it for a rank that has given up.
/// Local.
void outlive(Communicator& whole, const Communicator& part);

/// Makes an NCCL group over `store` for tensors on `device`; each rank needs a different device.
/// wait() orders the device's current stream behind the result and does not block. [collective]
/// Throws ConfigError when the library was compiled without NCCL.
[[nodiscard]] std::shared_ptr<Communicator> make_nccl_communicator(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout,
    c10::Device device);

/// Return the engine and the store of a c10d communicator, for tests that compare with c10d and for
/// LibTorch APIs that want them; null for a group of one.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> c10d_backend(const Communicator& communicator);
[[nodiscard]] c10::intrusive_ptr<c10d::Store> c10d_store(const Communicator& communicator);

}  // namespace accelerate
