// c10d's interface to collectives through shared memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace accelerate::detail {

class LocalPeers;
class SharedGroup;
struct Founding;

/// A group of ranks of this host; `peers` has the processes of all of them.
/// Takes contiguous CPU tensors of every dtype; reduces those that kernels.h names. Tensors of
/// SharedArena (from peers->arena()) take part where they are. Errors are CommErrors. [collective]
/// Cost: about 1 ms, and 1.3 MiB of memory a rank up to eight ranks.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_shared_memory_backend(
    const Founding& founding, const std::shared_ptr<LocalPeers>& peers);

/// The group of a backend that make_shared_memory_backend made; null for others.
[[nodiscard]] std::shared_ptr<SharedGroup> group_behind(c10d::Backend& backend);

/// Of a backend that make_shared_memory_backend() made: throws CommError when one of `ranks` has
/// given up, left or died.
void require_presence_of(c10d::Backend& backend, const std::vector<int>& ranks);

/// Aborts, and tells the peers `reason` where the backend can.
void abort_because(c10d::Backend& backend, const std::string& reason);

/// A tensor in memory that the peers can reach; in LibTorch's own below the size from which that
/// matters, and for other devices.
[[nodiscard]] at::Tensor empty_for_peers(LocalPeers& peers, at::IntArrayRef sizes,
                                         const at::TensorOptions& options);

}  // namespace accelerate::detail
