// Notes that ranks exchange through the store to find out who shares a host.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "accelerate/comm/roll_call.h"
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

/// The cards of the ranks that may be on this host, or why no rank can share memory.
struct HostCards {
  std::map<int, HostCard> of_machine;  ///< By rank: of the same boot as this rank's.
  std::string why_not;
};

/// The host of each rank, or why no rank can share memory.
struct HostNumbers {
  std::vector<int> host_of;
  std::string why_not;
};

/// Exchanges notes through the store: each rank writes its note, and rank 0 reads the notes of all
/// ranks and answers. Throws CommError when the store fails, and at the deadline, with the ranks that
/// are late. Cost: see RollCall.
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

  /// Tells `own`, and returns the cards of the ranks of this machine. [collective] Rank 0 calls
  /// `reason_in` with the cards of all ranks, by rank: it returns why memory cannot be shared, or "".
  /// What it throws, all ranks throw.
  [[nodiscard]] HostCards exchange(
      const HostCard& own,
      const std::function<std::string(const std::vector<HostCard>&)>& reason_in);
  /// Tells `own`, and returns what rank 0 makes of the verdicts of all ranks by `decide`.
  /// [collective] What `decide` throws, all ranks throw.
  [[nodiscard]] HostNumbers exchange(
      const HostVerdict& own,
      const std::function<HostNumbers(const std::vector<HostVerdict>&)>& decide);

  /// Returns the verdict of `rank` if it has written one already; else nullopt. A rank that has not
  /// introduced itself before its verdict has given up.
  [[nodiscard]] std::optional<HostVerdict> verdict_of(int rank);

  /// Throws a CommError that says that the deadline is over and `ranks` had not done `what`.
  [[noreturn]] void throw_late(const std::vector<int>& ranks, const std::string& what) const;

 private:
  /// Says `text`, waits for rank 0, and returns its answer.
  [[nodiscard]] RollAnswer tell(
      const Kind& kind, const std::string& text,
      const std::function<RollAnswer(const std::vector<std::string>&)>& decide,
      const std::string* section = nullptr);
  void wait(RollCall& call, const Kind& kind);
  [[nodiscard]] static std::string name_of_all(const Kind& kind);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int size_;
  const Deadline& deadline_;
};

}  // namespace accelerate::detail
