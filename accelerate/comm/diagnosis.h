// What a group knows about its members besides tensors: who joined, who said goodbye, who failed
// and why. These notes are kept in the group's store and read when something goes wrong, so that an
// error names the rank that caused it.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/text.h"
#include "accelerate/comm/deadline.h"

namespace accelerate::detail {

// What a rank tells its peers about its process, so that their errors can name the process.

/// Describes this process to peers: its process ID, its host name, and the boot and the process
/// namespace it runs in.
[[nodiscard]] std::string own_process_card();

/// Returns "process 1234". Appends ", which is stopped" or ", which has died" if that can be seen
/// from here, or " on node-b" if the process is on another host. Returns "" for an invalid card.
[[nodiscard]] std::string describe_process(const std::string& card);

}  // namespace accelerate::detail

namespace c10d {
class Store;
}

namespace accelerate::detail {

class RollCall;

/// A call that ranks of a group make together.
struct CallInGroup {
  std::string what;          ///< E.g. "all_reduce of Float[4]".
  std::uint64_t number = 0;  ///< Position among the group's collectives; 0 for a message.
  int peer = -1;             ///< The rank at the other end of a message; -1 for a collective.
  std::uint64_t bytes = 0;   ///< That this rank contributes.
};

/// What ranks tell each other when they join a group, besides their process cards.
struct JoinTerms {
  std::string own;  ///< Lines that this rank says.
  /// Called on rank 0 with the lines of all ranks, by rank; the process card is the first three.
  /// What it throws, all ranks throw.
  std::function<void(const std::vector<std::string>&)> judge = {};
};

class GroupDiagnosis {
 public:
  GroupDiagnosis(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                 std::chrono::milliseconds timeout);

  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }

  /// Waits until all ranks have joined; logs the missing ranks every 5 s. Calls `look` every few ms
  /// and passes on what it throws. At the deadline throws a CommError that names the missing ranks.
  /// Cost: rank 0 reads what every rank says, another rank one note and the cards of its machine.
  void wait_for_everyone_to_join(const Deadline& deadline, const std::function<void()>& look = {},
                                 const JoinTerms& terms = {});

  /// To be called by every rank before it throws an error that all ranks have found in the store,
  /// each independently. Rank 0 returns when all ranks have called, or after 30 s at most. The
  /// store may end with rank 0, and a rank that had not read it yet would report a lost peer
  /// instead. The other ranks return immediately. Never throws.
  void let_all_find_out() noexcept;

  /// Marks a clean exit, so that peers can tell it from a crash. Never throws.
  void say_goodbye() noexcept;

  /// Writes `reason` to the store for the peers; the group counts as aborted from now on. Never
  /// throws.
  void announce_failure(const std::string& reason) noexcept;

  [[nodiscard]] bool aborted() const { return aborted_; }
  /// Throws a CommError with the reason when one of `ranks` has announced a failure. Cost: one
  /// query to the store.
  void throw_if_given_up(const std::vector<int>& ranks);
  /// Throws CommError when the group was aborted.
  void throw_if_aborted(const std::string& what) const;

  /// Throws CommError when a peer has announced its failure; throw_failure() then says which peer.
  /// Cost: one query to the store.
  void throw_if_a_peer_failed();

  /// Tells the peers that this rank waits in `call`, so that a rank that times out knows who takes
  /// part and who does not. Never throws. Cost: one message to the store.
  void say_waiting(const CallInGroup& call) noexcept;

  /// Throws a CommError when the next rank waits in a collective of the same number as `call` but of
  /// another size: neither can end. In a ring of ranks some rank sees it. Cost: one or two queries
  /// to the store.
  void throw_if_next_rank_waits_elsewhere(const CallInGroup& call);

  /// Throws a CommError that says that `what` failed, why, and what is known about the peers.
  [[noreturn]] void throw_failure(const std::string& what, const std::exception& error);
  /// As above. When a peer has given up waiting, the error also says whom `call` waits for.
  [[noreturn]] void throw_failure(const CallInGroup& call, const std::exception& error);

  /// Throws a CommError that says that `what` was not finished within the timeout. It reports what
  /// the store knows about the peers, or `known`, the engine's report, if that is given.
  [[noreturn]] void throw_timeout(const std::string& what, const std::string& known = "");
  /// As above, and names the ranks, with their processes, that are not known to wait in `call` too.
  [[noreturn]] void throw_timeout(const CallInGroup& call);

  /// Returns e.g. "rank 1 of 2".
  [[nodiscard]] std::string who() const;

 private:
  [[nodiscard]] bool has_store() const;  ///< False when the store's host is known to have left.
  [[nodiscard]] std::string key(const char* kind, int rank) const;
  [[nodiscard]] std::vector<std::string> keys_of_all(const char* kind) const;
  /// Waits until rank 0 knows that all ranks have come, and the others know that from rank 0.
  void await(RollCall& call, const Deadline& deadline, const std::function<void()>& look);
  /// Keeps the process cards in rank 0's answer to the ranks of this machine.
  void keep_cards(const std::string& text);
  /// Returns one sentence for each peer about which something is known. When the store does not
  /// answer, a sentence about the store, and one for each process seen to be dead or stopped.
  [[nodiscard]] std::string peer_sentences() noexcept;
  /// Returns e.g. " Rank 1 gave up: lost its GPU."; empty when `rank` has not given up.
  [[nodiscard]] std::string failure_of(int rank);
  /// Returns e.g. "rank 1 (process 1234, which is stopped)". Asks the store for the process of a
  /// rank on another machine.
  [[nodiscard]] std::string name_of(int rank) const noexcept;
  /// Whether `rank` is a process of this machine that a signal has stopped.
  [[nodiscard]] bool is_stopped(int rank) const;
  /// Returns a sentence for each process that is seen to be dead or stopped. Needs no store.
  [[nodiscard]] std::string lost_processes() const;
  /// Says which ranks do not wait in `call`, and in which other calls they wait.
  [[nodiscard]] std::string attendance(const CallInGroup& call) noexcept;
  /// Returns the call in which `rank` has said that it waits, the last time it said so.
  [[nodiscard]] std::optional<CallInGroup> call_of(int rank);
  [[nodiscard]] std::string attendance_of(int rank, const CallInGroup& call);
  void leave_note(const char* kind, const std::string& text) noexcept;
  [[noreturn]] void throw_late(const std::string& what, const std::string& missing) const;
  [[noreturn]] void throw_failed(const std::string& what, const std::exception& error,
                                 std::string known) const;

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  // Process cards of the ranks of this machine, once all ranks have joined. Of a rank of another
  // machine it cannot be seen whether it lives, so its card is read only to name it.
  std::map<int, std::string> cards_;
  std::atomic<bool> aborted_ = false;
};

/// Bookkeeping of one wait, which goes in slices of at most 5 s: a line in the log every 5 s, an
/// error at the timeout.
class Waiting {
 public:
  /// `what` returns the name of the operation; it is called only for a log line or an error. Waits
  /// until `deadline`; if none is given, for the timeout of the group.
  Waiting(std::function<std::string()> what, GroupDiagnosis& diagnosis,
          const std::optional<Deadline>& deadline = {});

  [[nodiscard]] std::chrono::milliseconds next_slice() const;
  /// To be called when a slice is over and the result is not there. Throws CommError at the
  /// timeout. The error contains `known`, the engine's report; if that is empty, what the peers say
  /// about `call`.
  void report_or_throw(const std::string& known, const CallInGroup& call);
  [[nodiscard]] bool is_over() const;
  /// For waits that poll: true every 5 s. Throws CommError when the timeout is over.
  [[nodiscard]] bool report_is_due();

 private:
  std::function<std::string()> what_;
  GroupDiagnosis& diagnosis_;
  Deadline deadline_;
  std::chrono::milliseconds next_report_;
  bool is_known_to_wait_ = false;
};

/// Returns the first line of an exception of c10d or Gloo, without source positions, stack traces
/// and advice for Gloo's developers.
[[nodiscard]] std::string first_line(const std::exception& error);

inline constexpr std::chrono::milliseconds kWaitSlice{5'000};

}  // namespace accelerate::detail
