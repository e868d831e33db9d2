// Memory of each rank that its peers may read at any time. The owner takes no part in a read, so a
// reader does not depend on what the owner does meanwhile.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/comm/shared_memory/counter.h"

namespace accelerate {

namespace detail {
class SharedGroup;
}

/// The contents of a window have an epoch: a number that its owner raises with every change. A
/// reader asks for an epoch, and gets the contents of exactly that epoch or an error.
///
///   window->open();                          // owner: peers who come now wait
///   …write window->local()…
///   window->publish(step);
///   window->read(rank, 0, shard, step);      // any rank, any number of times
class SharedWindow {
 public:
  /// Makes a window of `bytes` bytes on each rank of `communicator`, all at epoch 0 with undefined
  /// contents. [collective] Throws UsageError unless the communicator uses shared memory, CommError
  /// as Communicator::empty. The communicator's group must outlive the window.
  [[nodiscard]] static std::shared_ptr<SharedWindow> create(Communicator& communicator,
                                                            std::size_t bytes);
  /// Ends this rank's window. Peers may still read its last epoch, and get an error for any other.
  /// The memory is reused when all peers have ended their windows too. Local.
  ~SharedWindow();
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;

  /// This rank's memory: dtype uint8, shape {bytes}. Write to it only between open() and publish().
  [[nodiscard]] const at::Tensor& local() const { return local_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  /// Ends the current epoch: the contents may change from now on. A peer that is reading gets an
  /// error, so make sure by a collective that no peer still needs this epoch. Local.
  void open();
  /// Publishes the contents as `epoch`. Local. Throws UsageError unless `epoch` is higher than the
  /// last epoch and below 2^30 - 1.
  void publish(std::uint32_t epoch);
  /// Returns the epoch that `rank` has published last; 2^30 - 1 if it has ended its window. Local;
  /// does not wait.
  [[nodiscard]] std::uint32_t epoch(int rank) const;

  /// Fills `to`, contiguous and on the CPU, with the bytes from `offset` on in the window of
  /// `rank`, as of `epoch`. Waits until the epoch is published, at most the group's timeout; the
  /// owner takes no part. Throws CommError if the owner has died, left, given up or is late, or has
  /// gone on to a later epoch, whose contents are never returned instead. Throws UsageError if the
  /// bytes are outside the window. Cost: the copy.
  void read(int rank, std::size_t offset, const at::Tensor& to, std::uint32_t epoch);

 private:
  struct Header;
  SharedWindow(std::shared_ptr<detail::SharedGroup> group, std::chrono::milliseconds timeout,
               int rank, std::size_t bytes);
  void map_peers(const at::Tensor& where);
  [[nodiscard]] Header& header(int rank) const;
  [[nodiscard]] Header& own_header();
  void wait_for(int rank, std::uint32_t epoch);

  std::shared_ptr<detail::SharedGroup> group_;
  std::chrono::milliseconds timeout_;
  int rank_;
  std::size_t bytes_;
  at::Tensor memory_;  // The header, then the window.
  at::Tensor local_;
  std::vector<std::byte*> peers_;  // Where each rank's memory is in this process.
};

}  // namespace accelerate
