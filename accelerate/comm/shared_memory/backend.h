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

/// Makes the backend of a group of ranks of this host; `peers` has the processes of all its ranks.
/// The backend takes contiguous CPU tensors of every dtype, and reduces the dtypes that kernels.h
/// names. It uses tensors of SharedArena (from peers->arena()) without a copy. Errors are
/// CommErrors. [collective] Cost: about 1 ms, and 1.3 MiB of memory per rank up to eight ranks.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_shared_memory_backend(
    const Founding& founding, const std::shared_ptr<LocalPeers>& peers);

/// Returns the group of a backend that make_shared_memory_backend() made; null for other backends.
[[nodiscard]] std::shared_ptr<SharedGroup> group_behind(c10d::Backend& backend);

/// Throws CommError when one of `ranks` has given up, left or died. `backend` must come from
/// make_shared_memory_backend().
void require_presence_of(c10d::Backend& backend, const std::vector<int>& ranks);

/// Aborts `backend`, and tells the peers `reason` if it is a shared-memory backend.
void abort_because(c10d::Backend& backend, const std::string& reason);

/// Returns a tensor in memory that the peers can reach. Small tensors and tensors of other devices
/// are in memory of LibTorch's allocator.
[[nodiscard]] at::Tensor empty_for_peers(LocalPeers& peers, at::IntArrayRef sizes,
                                         const at::TensorOptions& options);

}  // namespace accelerate::detail
