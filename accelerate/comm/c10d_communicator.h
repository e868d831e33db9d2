// Communicator over any c10d::Backend.
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

/// What sets an engine apart from Gloo.
struct C10dTraits {
  bool moves_every_dtype = false;  ///< Else tensors that are only moved go as bytes.
  bool has_mean = false;           ///< Else a mean is a sum that is divided after.
  /// A reduce-scatter is an all-reduce of a copy. So is Gloo's own, which never says that it
  /// failed.
  bool scatters_by_all_reduce = false;
  bool ends_when_aborted = false;  ///< Else its destructor waits for what will never end.
  /// Memory that the engine uses where it is; LibTorch's allocator when empty.
  std::function<at::Tensor(at::IntArrayRef, const at::TensorOptions&)> empty = {};
  /// Throws CommError when one of the ranks has given up, left or died, where the engine can tell.
  std::function<void(c10d::Backend&, const std::vector<int>&)> require_presence_of = {};
};

struct C10dGroup {
  c10::intrusive_ptr<c10d::Store> store;  ///< Shared by exactly the ranks of the group.
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{std::chrono::minutes(30)};
  c10::Device device = c10::kCPU;  ///< Where the tensors lie that the engine takes.
  C10dTraits traits = {};
  /// Makes the engine of a group; called again for sub-groups. May ask `look` while it waits.
  std::function<c10::intrusive_ptr<c10d::Backend>(const C10dGroup&,
                                                  const std::function<void()>& look)>
      make_backend = {};
  /// Asked while ranks join; throws when that is in vain. Of a sub-group.
  std::function<void()> look = {};
};

/// Joins `group` and returns its communicator. [collective] Throws CommError.
[[nodiscard]] std::shared_ptr<Communicator> make_c10d_communicator(C10dGroup group);

/// A Gloo group over `store`; peers connect to `address` of this machine. [collective]
[[nodiscard]] std::shared_ptr<Communicator> make_gloo_communicator(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout,
    const std::string& address = "127.0.0.1");

/// A group over memory of this host, which `peers` (of detail::meet_hosts) has all processes of.
/// [collective]
[[nodiscard]] std::shared_ptr<Communicator> make_shared_memory_communicator(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout,
    std::shared_ptr<detail::LocalPeers> peers);

/// Connects a group anew after it was aborted, on all its ranks; operations that were under way
/// fail. Groups split off from it are aborted, and stay so. Does nothing for a group of one.
/// [collective]
/// Throws CommError. Cost: that of making the group; the memory of the old connections is not given
/// back.
void renew(Communicator& communicator);

/// How often the group was connected anew. The same on all ranks. Local.
[[nodiscard]] int renewals(const Communicator& communicator);

/// Whether a reduce-scatter is an all-reduce: of a copy, unless the output is this rank's part of
/// the input. Local.
[[nodiscard]] bool scatters_by_all_reduce(const Communicator& communicator);

/// `part`, which was split off from `whole`, lives on when that is aborted; others are aborted with
/// it, so that nobody waits in them for a rank that has given up. Local.
void outlive(Communicator& whole, const Communicator& part);

/// An NCCL group over `store`, for tensors on `device`, of which each rank needs its own. wait()
/// orders the device's current stream behind the result and does not block. [collective] Throws
/// ConfigError when the library was compiled without NCCL.
[[nodiscard]] std::shared_ptr<Communicator> make_nccl_communicator(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout,
    c10::Device device);

/// The engine and the store of a c10d communicator, for oracles and LibTorch APIs that want them;
/// null for a group of one.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> c10d_backend(const Communicator& communicator);
[[nodiscard]] c10::intrusive_ptr<c10d::Store> c10d_store(const Communicator& communicator);

}  // namespace accelerate
