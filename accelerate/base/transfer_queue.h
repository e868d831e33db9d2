// Reading and writing files while the caller computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "accelerate/base/direct_file.h"

namespace accelerate {

/// A read or write that is under way. Move-only. Waits when it is destroyed or replaced, since the
/// memory may go then; whether it failed stays unknown in this case. May outlive its queue. Threads:
/// one at a time.
class Transfer {
 public:
  /// Nothing under way: it is done.
  Transfer();
  Transfer(Transfer&& other) noexcept;
  Transfer& operator=(Transfer&& other) noexcept;
  ~Transfer();

  /// Returns when nothing of it is under way any more. Rethrows the first failure, each time.
  void wait();
  [[nodiscard]] bool is_done() const;

 private:
  friend class TransferQueue;
  class State;

  explicit Transfer(std::shared_ptr<State> state);
  void finish() noexcept;

  std::shared_ptr<State> state_;  // Null: nothing under way.
};

/// Reads and writes files on threads of its own, in pieces; what was asked first begins first.
/// Reading and writing have threads each, so that neither waits for the other. Transfers end in any
/// order: wait() for a write before the same bytes are read or written again.
///
/// Memory: what DirectFile takes a call, for each thread. Threads: all functions may be called from
/// several threads at the same time. The queue's threads start at its first use, and take none of
/// the program's signals. They do not exist in a child of fork(), where the queue must not be used.
class TransferQueue {
 public:
  struct Options {
    std::size_t threads = 4;  ///< To read, and as many to write. Fewer if no more can be started.
    /// The most bytes that a thread takes at once, rounded up to DirectFile::kAlignment. Pieces are
    /// cut at multiples of it in the file, so that no two pieces share a block.
    std::size_t piece_bytes = std::size_t{8} << 20;
  };

  TransferQueue();
  /// Throws UsageError if an option is 0.
  explicit TransferQueue(Options options);
  /// Finishes what was asked for.
  ~TransferQueue();
  TransferQueue(const TransferQueue&) = delete;
  TransferQueue& operator=(const TransferQueue&) = delete;

  /// Begins what DirectFile::read does. `file` and the memory must stay until the transfer is done.
  /// After a piece has failed, pieces that have not begun are left out. Throws std::system_error if
  /// no thread can be started.
  [[nodiscard]] Transfer read(const DirectFile& file, std::uint64_t offset,
                              std::span<std::byte> into);
  /// Begins what DirectFile::write does, under the conditions of read().
  [[nodiscard]] Transfer write(const DirectFile& file, std::uint64_t offset,
                               std::span<const std::byte> bytes);

  /// The bytes of all pieces that were read without a failure. All of a transfer that is done count.
  [[nodiscard]] std::uint64_t bytes_read() const;
  [[nodiscard]] std::uint64_t bytes_written() const;

 private:
  class Lane;

  std::unique_ptr<Lane> reading_, writing_;
};

}  // namespace accelerate
