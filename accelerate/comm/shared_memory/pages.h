// Memory that all ranks of a host share: one copy, which each rank reads and writes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "accelerate/comm/communicator.h"

namespace accelerate {

/// A rank sees what a peer has written once both have met in a collective, e.g. in a barrier(). The
/// ranks must agree on who writes where, and when.
///
///   const auto pages = SharedPages::create(*group, bytes);
///   …write this rank's slice of pages->local()…
///   group->barrier();
///   …read all of it…
class SharedPages {
 public:
  /// Whether the ranks of `communicator` can share pages: they share memory, or there is only one.
  /// The same on all ranks. Local.
  [[nodiscard]] static bool possible(const Communicator& communicator);

  /// Makes `bytes` bytes of shared memory with undefined contents, on whole pages of the arena of
  /// the group's first rank. A group of one gets ordinary memory. [collective]
  ///
  /// All memory is reserved when this returns: lack of memory is an error here and never a SIGBUS
  /// later. A failure is an error on all ranks. Throws UsageError if possible() is false; CommError
  /// if the ranks ask for different sizes, the first rank has no memory (as Communicator::empty) or
  /// another rank cannot map it. Cost: about 1 ms per MiB, because the system zeroes new memory; on
  /// the other ranks the page tables.
  [[nodiscard]] static std::shared_ptr<SharedPages> create(Communicator& communicator,
                                                           std::size_t bytes);

  /// The memory: dtype uint8, shape {bytes}, on the CPU; the same memory on all ranks. It cannot
  /// grow. Its storage keeps the memory alive, even without this object, the communicator or the
  /// other ranks' tensors. The memory is reused once every rank has released it or died.
  [[nodiscard]] const at::Tensor& local() const { return local_; }
  [[nodiscard]] std::size_t bytes() const { return local_.nbytes(); }

 private:
  explicit SharedPages(at::Tensor local) : local_(std::move(local)) {}
  at::Tensor local_;
};

}  // namespace accelerate
