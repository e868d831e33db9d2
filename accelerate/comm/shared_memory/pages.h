// Memory that all ranks of a host have in common: one copy, which each of them reads and writes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "accelerate/comm/communicator.h"

namespace accelerate {

/// What one rank writes the others see once both have met in a collective (a barrier() does); who
/// writes where, and when, is for the ranks to agree upon.
///
///   const auto pages = SharedPages::create(*group, bytes);
///   …write this rank's slice of pages->local()…
///   group->barrier();
///   …read all of it…
class SharedPages {
 public:
  /// Whether the ranks of `communicator` can have pages in common: they share memory, or there is
  /// but one. The same on all ranks. Local.
  [[nodiscard]] static bool possible(const Communicator& communicator);

  /// `bytes` bytes, with undefined contents, on whole pages of the arena of the group's first rank.
  /// A group of one has memory of its own. [collective]
  ///
  /// All of it is there when this returns: lack of memory is an error here and never a SIGBUS
  /// later. When anything fails it fails on all ranks. Throws UsageError where possible() is false;
  /// CommError: the ranks ask for different sizes, the first has no memory (as Communicator::empty)
  /// or another cannot map it. Cost: about 1 ms a MiB, for the system zeroes new memory; the
  /// other ranks' page tables when they first touch it.
  [[nodiscard]] static std::shared_ptr<SharedPages> create(Communicator& communicator,
                                                           std::size_t bytes);

  /// The memory: bytes, shape {bytes}, on the CPU; the same on all ranks. It cannot grow. Its
  /// storage keeps the memory alive, also when this, the communicator or the other ranks' tensors
  /// are gone; it is used again for other things when the last rank has let go of it or died.
  [[nodiscard]] const at::Tensor& local() const { return local_; }
  [[nodiscard]] std::size_t bytes() const { return local_.nbytes(); }

 private:
  explicit SharedPages(at::Tensor local) : local_(std::move(local)) {}
  at::Tensor local_;
};

}  // namespace accelerate
