// What a group knows about its members besides tensors: who joined, who said goodbye, who failed
// and why. Kept in the group's store, read when something goes wrong, so that an error names the
// rank that caused it.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace c10d {
class Store;
}

namespace accelerate::detail {

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

  /// Throws CommError: `what` failed, why, and what is known about the peers.
  [[noreturn]] void throw_failure(const std::string& what, const std::exception& error);

  /// Throws CommError: `what` was not finished within the timeout. `known`, what the engine says
  /// about that, stands for what the store knows.
  [[noreturn]] void throw_timeout(const std::string& what, const std::string& known = "");

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

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  std::atomic<bool> aborted_ = false;
};

/// Bookkeeping of one wait: slices of 5 s, a line in the log after each, an error at the timeout.
class Waiting {
 public:
  /// `what` is asked when there is something to say.
  Waiting(std::function<std::string()> what, GroupDiagnosis& diagnosis);

  [[nodiscard]] std::chrono::milliseconds next_slice() const;
  /// To be called when a slice is over and the result is not there; `known` as for throw_timeout.
  void report_or_throw(const std::string& known = "");
  /// For waits that poll: true every 5 s. Throws CommError when the timeout is over.
  [[nodiscard]] bool report_is_due();

 private:
  using Clock = std::chrono::steady_clock;
  std::function<std::string()> what_;
  GroupDiagnosis& diagnosis_;
  Clock::time_point start_ = Clock::now();
  std::chrono::milliseconds next_report_{5'000};
};

/// The first line of an exception of c10d or Gloo, without source positions and stack traces.
[[nodiscard]] std::string first_line(const std::exception& error);

/// "12 s", "350 ms".
[[nodiscard]] std::string format_duration(std::chrono::milliseconds duration);

inline constexpr std::chrono::milliseconds kWaitSlice{5'000};

}  // namespace accelerate::detail
