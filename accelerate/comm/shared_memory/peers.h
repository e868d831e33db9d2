// The ranks that share this host, and access to their memory.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "accelerate/base/descriptor.h"
#include "accelerate/comm/deadline.h"
#include "accelerate/comm/shared_memory/arena.h"
#include "accelerate/comm/shared_memory/free_extents.h"
#include "accelerate/comm/shared_memory/interval_table.h"
#include "accelerate/comm/shared_memory/process_handle.h"

namespace c10d {
class Store;
}

namespace accelerate::detail {

/// The processes (in tests: threads) of one run on this host, seen from one of them. Thread-safe.
/// Addresses from map() are valid while this object lives. Keeps two file descriptors for each
/// rank.
class LocalPeers {
 public:
  struct Peer {
    Descriptor memory;  ///< Its memory file.
    ProcessHandle process;
  };

  /// `peers` are in rank order. `index` is the place of this rank, whose memory is `arena`. Throws
  /// CommError when the owner of a file could make it smaller, which would cause a SIGBUS here.
  LocalPeers(std::shared_ptr<SharedArena> arena, std::vector<Peer> peers, int index);
  ~LocalPeers();
  LocalPeers(const LocalPeers&) = delete;
  LocalPeers& operator=(const LocalPeers&) = delete;

  /// How many ranks of this run are on this host.
  [[nodiscard]] int size() const { return static_cast<int>(peers_.size()); }
  /// The place of this rank among the ranks on this host, in rank order.
  [[nodiscard]] int index() const { return index_; }
  /// This rank's own memory.
  [[nodiscard]] const std::shared_ptr<SharedArena>& arena() const { return arena_; }

  /// Returns the address in this process of `extent` in the memory of `peer`. The first call for a
  /// segment maps all of it. Throws CommError when the extent is not within its segment, the
  /// segment not within the peer's file, or the segment cannot be mapped. Cost: about 10 ns; for a
  /// new segment two system calls and its page tables, about 30 us per MiB.
  [[nodiscard]] std::byte* map(int peer, const SharedExtent& extent);

  /// Whether the process of `peer` has not ended; it may be stopped. Cost: a system call.
  [[nodiscard]] bool is_alive(int peer) const noexcept;

  /// Returns "process 1234", with ", which is stopped" or ", which has died" if that is known.
  [[nodiscard]] std::string describe(int peer) const;

 private:
  struct Mapped {
    explicit Mapped(Peer p) : peer(std::move(p)) {}
    Peer peer;
    std::mutex mutex;        // held while a segment is mapped
    IntervalTable segments;  // offset in the file -> address
  };

  [[nodiscard]] std::byte* map_segment(int peer, const SharedExtent& extent);
  void check(int peer, const SharedExtent& extent) const;

  std::shared_ptr<SharedArena> arena_;
  std::vector<std::unique_ptr<Mapped>> peers_;
  int index_;
};

/// Says which rank is on which host.
struct Hosts {
  std::vector<int> host_of;  ///< By rank; hosts are numbered in the order of their lowest ranks.
  std::shared_ptr<LocalPeers> peers;  ///< Null when why_not is set.
  std::string why_not;  ///< Why memory is not shared, and which rank is the cause; same everywhere.
};

/// Finds out who shares this host: ranks pass their memory files around, and each reads what the
/// owners wrote into them. [collective] Ranks share a host if they run under the same boot of the
/// same kernel and reach each other's abstract sockets. So each network namespace counts as a host.
///
/// If any rank cannot take part (no memory, too few descriptors, another user, another version),
/// all ranks get the same `why_not` and an empty `host_of`, so that no rank uses shared memory.
/// Throws CommError, with the ranks that did not come before the
/// meeting's deadline, or when the store fails;
/// UsageError in a forked process. `store` must not have been used for this before.
///
/// Cost: two notes to the store, which rank 0 reads and answers, and on each host one message from
/// every rank to the lowest rank and one or more back: a few ms. Leaves no thread, socket or key that
/// anybody waits for.
[[nodiscard]] Hosts meet_hosts(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                               const GroupTimes& times);

}  // namespace accelerate::detail
