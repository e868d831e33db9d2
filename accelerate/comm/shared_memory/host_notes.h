// Notes that ranks exchange through the store to find out who shares a host.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "accelerate/comm/shared_memory/local_socket.h"

namespace c10d {
class Store;
}

namespace accelerate::detail {

/// The first note of a rank. Socket, token and nonce come from random_name().
struct HostCard {
  std::string version;  ///< Version of this protocol.
  std::string boot;     ///< Differs between machines, and between two starts of a machine.
  std::string socket;   ///< Name of the socket that the rank listens on.
  std::string token;    ///< Secret that a peer must send to be admitted.
  std::string nonce;    ///< Random digits that the rank has written into its memory.
  std::string why_not;  ///< Why the rank cannot share memory; usually empty.
};

/// The last note of a rank: whether it has read the nonces of all ranks of its host.
struct HostVerdict {
  int leader = 0;                   ///< The lowest rank of its host; -1 if the note names none.
  std::string why_not;              ///< Why it has not; empty if it has.
  bool because_of_another = false;  ///< Another rank is the cause, and its verdict says more.
};

/// Why this rank cannot share memory. Not an error, because ranks can use Gloo instead.
struct CannotShare : std::runtime_error {
  explicit CannotShare(const std::string& reason, bool because_of_another_rank = false)
      : std::runtime_error(reason), because_of_another(because_of_another_rank) {}
  bool because_of_another;
};

/// Exchanges notes through the store: each rank writes its note and reads the notes of all ranks.
/// Throws CommError when the store fails, and at the deadline, with the ranks that are late.
class HostNotes {
 public:
  /// A kind of note. Errors say that a late rank had not done `deed`.
  struct Kind {
    const char* name;
    const char* deed;
  };

  HostNotes(c10::intrusive_ptr<c10d::Store> store, int rank, int size, const Deadline& deadline);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const Deadline& deadline() const { return deadline_; }

  /// Returns the cards of all ranks, by rank. [collective]
  [[nodiscard]] std::vector<HostCard> exchange(const HostCard& own);
  /// Returns the verdicts of all ranks, by rank. [collective]
  [[nodiscard]] std::vector<HostVerdict> exchange(const HostVerdict& own);

  /// Returns the verdict of `rank` if it has written one already; else nullopt. A rank that has not
  /// introduced itself before its verdict has given up.
  [[nodiscard]] std::optional<HostVerdict> verdict_of(int rank);

  /// Throws a CommError that says that the deadline is over and `ranks` had not done `what`.
  [[noreturn]] void throw_late(const std::vector<int>& ranks, const std::string& what) const;

 private:
  [[nodiscard]] std::vector<std::string> tell(const Kind& kind, const std::string& text);
  void wait_for_all(const Kind& kind);
  [[nodiscard]] std::vector<int> missing(const Kind& kind);
  [[nodiscard]] static std::string key(const Kind& kind, int rank);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int size_;
  const Deadline& deadline_;
};

}  // namespace accelerate::detail
