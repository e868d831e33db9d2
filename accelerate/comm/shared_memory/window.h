// Memory of each rank that its peers read when they like: the owner takes no part, so no rank ever
// waits for one that went another way.
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

/// What is in a window has an epoch: a number that its owner raises with every change. A reader
/// says which epoch it wants, and gets exactly that or an error.
///
///   window->open();                          // owner: peers who come now wait
///   …write window->local()…
///   window->publish(step);
///   window->read(rank, 0, shard, step);      // any rank, any number of times
class SharedWindow {
 public:
  /// A window of `bytes` on each rank of `communicator`, all at epoch 0 with undefined contents.
  /// [collective] Throws UsageError unless that is over shared memory, CommError as
  /// Communicator::empty. The communicator's group must outlive it.
  [[nodiscard]] static std::shared_ptr<SharedWindow> create(Communicator& communicator,
                                                            std::size_t bytes);
  /// Ends this rank's part in it. Peers may go on reading its last epoch, and get an error for any
  /// other; the memory is used again when all peers have ended theirs. Local.
  ~SharedWindow();
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;

  /// This rank's memory: bytes, shape {bytes}. Written between open() and publish() only.
  [[nodiscard]] const at::Tensor& local() const { return local_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  /// The contents change from now on. A peer that is reading gets an error: make sure, by a
  /// collective, that none needs the epoch that ends here. Local.
  void open();
  /// The contents are those of `epoch`, which is higher than the last and below 2^30 - 1. Local.
  /// Throws UsageError.
  void publish(std::uint32_t epoch);
  /// The epoch that `rank` has published last; 2^30 - 1 when it has ended its part. Local; no
  /// waiting.
  [[nodiscard]] std::uint32_t epoch(int rank) const;

  /// `to`, contiguous and on the CPU, becomes the bytes from `offset` on in the window of `rank`,
  /// as of `epoch`. Waits until it is published, at most the group's timeout; the owner does
  /// nothing for it. Throws CommError: the owner has died, left or given up, is late, or has gone
  /// on to a later epoch, whose contents are never handed out in place of the wanted ones;
  /// UsageError: outside the window. Cost: the copy.
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
