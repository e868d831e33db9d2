// What a group knows about its members besides tensors: who joined, who said goodbye, who failed
// and why. Kept in the group's store, read when something goes wrong, so that an error names the
// rank that caused it.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace c10d {
class Store;
}

namespace accelerate::detail {

/// A call that ranks of a group make together.
struct CallInGroup {
  std::string what;          ///< "all_reduce of Float[4]"
  std::uint64_t number = 0;  ///< Among the collectives of the group; 0 for a message.
  int peer = -1;             ///< Whom a message comes from or goes to; -1 for a collective.
};

class GroupDiagnosis {
 public:
  GroupDiagnosis(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                 std::chrono::milliseconds timeout);

  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }

  /// Returns when all ranks have come; logs the missing ones every 5 s. Throws CommError that names
  /// them when the timeout is over, and what `look`, asked every few ms, throws.
  void wait_for_everyone_to_join(const std::function<void()>& look = {});

  /// To be called by every rank before it throws what all have found in the store, each by itself.
  /// Rank 0 returns when all have come, or after 30 s: the store may end with it, and who has not
  /// read yet would report a lost peer instead. The others return at once. Never throws.
  void let_all_find_out() noexcept;

  /// Marks a clean exit, so that peers can tell it from a crash. Never throws.
  void say_goodbye() noexcept;

  /// Leaves `reason` for the peers; the group counts as aborted from now on. Never throws.
  void announce_failure(const std::string& reason) noexcept;

  [[nodiscard]] bool aborted() const { return aborted_; }
  /// Throws CommError when one of `ranks` has announced a failure, with its reason. Cost: one
  /// question to the store.
  void throw_if_given_up(const std::vector<int>& ranks);
  /// Throws CommError when the group was aborted.
  void throw_if_aborted(const std::string& what) const;

  /// Throws CommError when a peer has announced its failure; throw_failure() says which. Cost: one
  /// question to the store.
  void throw_if_a_peer_failed();

  /// Tells the peers that this rank waits in `call`, so that a rank whose timeout is over knows who
  /// is there and who is not. Never throws. Cost: one message to the store.
  void say_waiting(const CallInGroup& call) noexcept;

  /// Throws CommError: `what` failed, why, and what is known about the peers.
  [[noreturn]] void throw_failure(const std::string& what, const std::exception& error);
  /// As above, and whom `call` waits for when a peer has given up waiting.
  [[noreturn]] void throw_failure(const CallInGroup& call, const std::exception& error);

  /// Throws CommError: `what` was not finished within the timeout. `known`, what the engine says
  /// about that, stands for what the store knows.
  [[noreturn]] void throw_timeout(const std::string& what, const std::string& known = "");
  /// As above, and names the ranks that are not known to wait in `call` too, by their processes.
  [[noreturn]] void throw_timeout(const CallInGroup& call);

  /// "rank 1 of 2"
  [[nodiscard]] std::string who() const;

 private:
  [[nodiscard]] bool has_store() const;  ///< False when its host has left, as far as is known.
  [[nodiscard]] std::string key(const char* kind, int rank) const;
  [[nodiscard]] std::vector<std::string> keys_of_all(const char* kind) const;
  /// One sentence for each peer of which something is known; a sentence about rank 0 when the store
  /// that it hosts does not answer.
  [[nodiscard]] std::string peer_sentences() noexcept;
  [[nodiscard]] std::string missing_ranks();
  /// " Rank 1 gave up: lost its GPU."; empty when it has not.
  [[nodiscard]] std::string failure_of(int rank);
  /// "rank 1 (process 1234, which is stopped)"
  [[nodiscard]] std::string name_of(int rank) const;
  /// The processes that are seen to be dead or stopped, a sentence for each. Does without the store.
  [[nodiscard]] std::string lost_processes() const;
  /// Who does not wait in `call`, and what else some wait in.
  [[nodiscard]] std::string attendance(const CallInGroup& call) noexcept;
  /// Reads what peers told of their processes when they joined.
  void read_cards();
  [[nodiscard]] std::string attendance_of(int rank, const CallInGroup& call);
  void leave_note(const char* kind, const std::string& text) noexcept;
  [[noreturn]] void throw_late(const std::string& what, const std::string& missing) const;
  [[noreturn]] void throw_failed(const std::string& what, const std::exception& error,
                                 std::string known) const;

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  std::vector<std::string> cards_;  // Of the ranks' processes, once all have joined.
  std::atomic<bool> aborted_ = false;
};

/// Bookkeeping of one wait: slices of 5 s, a line in the log after each, an error at the timeout.
class Waiting {
 public:
  /// `what` is asked when there is something to say.
  Waiting(std::function<std::string()> what, GroupDiagnosis& diagnosis);

  [[nodiscard]] std::chrono::milliseconds next_slice() const;
  /// To be called when a slice is over and the result is not there. Throws at the timeout: with
  /// `known`, what the engine says, or else with what peers say of `call`.
  void report_or_throw(const std::string& known, const CallInGroup& call);
  [[nodiscard]] bool is_over() const;
  /// For waits that poll: true every 5 s. Throws CommError when the timeout is over.
  [[nodiscard]] bool report_is_due();

 private:
  using Clock = std::chrono::steady_clock;
  std::function<std::string()> what_;
  GroupDiagnosis& diagnosis_;
  Clock::time_point start_ = Clock::now();
  std::chrono::milliseconds next_report_{5'000};
  bool is_known_to_wait_ = false;
};

/// The first line of an exception of c10d or Gloo, without source positions and stack traces.
[[nodiscard]] std::string first_line(const std::exception& error);

/// "12 s", "350 ms".
[[nodiscard]] std::string format_duration(std::chrono::milliseconds duration);

inline constexpr std::chrono::milliseconds kWaitSlice{5'000};

}  // namespace accelerate::detail
