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

/// Makes the backend of ranks of this host over the memory that they share. It has the operations
/// that a Communicator and c10d::Reducer call, and the variants for lists of tensors, which Python
/// calls. The backend takes contiguous CPU tensors of every dtype, and reduces the dtypes that kernels.h names. It
/// uses tensors of SharedArena (of the group's peers) without a copy. Errors are CommErrors. Local.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_shared_memory_backend(
    const Founding& founding, std::shared_ptr<SharedGroup> group);

/// Returns a tensor in memory that the peers can reach. Small tensors and tensors of other devices
/// are in memory of LibTorch's allocator.
[[nodiscard]] at::Tensor empty_for_peers(LocalPeers& peers, at::IntArrayRef sizes,
                                         const at::TensorOptions& options);

}  // namespace accelerate::detail
