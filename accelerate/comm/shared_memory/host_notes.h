// What ranks tell all others through the store while they find out who shares a host.
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

/// The first thing that a rank tells. Names, tokens and nonces are of random_name().
struct HostCard {
  std::string version;  ///< Of this protocol.
  std::string boot;     ///< Differs between machines, and between two starts of one.
  std::string socket;   ///< Name that it listens under.
  std::string token;    ///< What whoever connects has to know.
  std::string nonce;    ///< What it has written into its memory.
  std::string why_not;  ///< Why it cannot share memory; usually empty.
};

/// The last: whether it has read what all ranks of its host wrote.
struct HostVerdict {
  int leader = 0;                   ///< The lowest rank of its host; -1: none was told.
  std::string why_not;              ///< Empty when it has.
  bool because_of_another = false;  ///< Then a peer knows the reason better.
};

/// Why this rank cannot share memory: not an error, as there are other ways.
struct CannotShare : std::runtime_error {
  explicit CannotShare(const std::string& reason, bool because_of_another_rank = false)
      : std::runtime_error(reason), because_of_another(because_of_another_rank) {}
  bool because_of_another;
};

/// Exchanges through the store: each rank tells once and hears everybody. Throws CommError when the
/// store fails, and at the deadline with the ranks that have not come.
class HostNotes {
 public:
  /// What is exchanged, and what a rank has not done that is late with it.
  struct Kind {
    const char* name;
    const char* deed;
  };

  HostNotes(c10::intrusive_ptr<c10d::Store> store, int rank, int size, const Deadline& deadline);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const Deadline& deadline() const { return deadline_; }

  /// All ranks' cards, by rank. [collective]
  [[nodiscard]] std::vector<HostCard> exchange(const HostCard& own);
  /// All ranks' verdicts, by rank. [collective]
  [[nodiscard]] std::vector<HostVerdict> exchange(const HostVerdict& own);

  /// The verdict of a rank that has given up already; nullopt while nothing is known.
  [[nodiscard]] std::optional<HostVerdict> verdict_of(int rank);

  /// Throws CommError: the deadline is over and `ranks` have not done `what`.
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
