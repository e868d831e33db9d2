// A collective that a rank has called, and how far it has come.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/comm/shared_memory/call.h"
#include "accelerate/comm/shared_memory/control_block.h"
#include "accelerate/comm/shared_memory/pending.h"
#include "accelerate/comm/shared_memory/rounds.h"

namespace accelerate::detail {

/// What an engine asks about the other ranks; by rank of the group.
class GroupPeers {
 public:
  virtual ~GroupPeers() = default;
  [[nodiscard]] virtual bool is_alive(int rank) const noexcept = 0;
  /// "process 1234", and what is known about it.
  [[nodiscard]] virtual std::string describe(int rank) const = 0;
  /// Where `extent` of the rank's memory file lies in this process. Throws CommError.
  [[nodiscard]] virtual std::byte* map(int rank, const SharedExtent& extent) = 0;
};

/// A rank among those that share a control block.
struct Group {
  ControlBlock block;
  int rank = 0;
  GroupPeers& peers;

  [[nodiscard]] int size() const { return block.size(); }
  [[nodiscard]] RankLines& own() const { return block.lines(rank); }
  /// The first of `who` (a rank, kEveryone or kNobody), this rank left out, whose counter has not
  /// reached `target`.
  [[nodiscard]] std::optional<Blocked> blocked_on(int who, Counter RankLines::* counter,
                                                  std::uint32_t target) const;
};

class Operation final : public Pending {
 public:
  /// Makes the rounds when the operation's turn has come. `in_place` is empty, or has for each rank
  /// whose memory is read (others: null) where that lies in this process.
  using Make = std::function<std::unique_ptr<Rounds>(const std::vector<std::byte*>& in_place)>;

  /// From this many bytes on memory in the arena is used where it is.
  static constexpr std::size_t kInPlaceFrom = std::size_t{64} << 10;

  /// `read_in_place`: whose memory an in-place version would read: a rank, kEveryone, or kNobody
  /// when there is none. All but `call.where` and `call.in_arena` must be equal on all ranks.
  Operation(Call call, int read_in_place, Make make, std::shared_ptr<void> keep);

  [[nodiscard]] const Call& call() const { return call_; }

  /// Makes the steps that can be made. Returns what it waits for; nothing when all rounds are over.
  /// `number` is that of the call, `turn` that of its first round, both since the group began and
  /// the same each time. Throws CommError: peers call something else.
  [[nodiscard]] std::optional<Blocked> advance(const Group& group, std::uint32_t number,
                                               std::uint32_t turn);
  /// Of an operation that has ended or has advanced as far as to know it.
  [[nodiscard]] std::uint32_t rounds() const { return rounds_ ? rounds_->count() : 0; }
  /// Whether peers may touch this rank's tensor while it is under way.
  [[nodiscard]] bool is_in_place() const { return in_place_; }

  /// Throws CommError when `peer` has made its call of this number, and it is another one.
  void compare_with(const Group& group, int peer) const;

 private:
  // Each makes a step, or returns what that waits for.
  std::optional<Blocked> choose(const Group& group);
  std::optional<Blocked> fill(const Group& group);
  std::optional<Blocked> reduce(const Group& group);
  std::optional<Blocked> drain(const Group& group);
  void compare(const Group& group, int who);
  [[nodiscard]] bool can_be_in_place(const Group& group) const;
  [[nodiscard]] std::vector<std::byte*> mapped(const Group& group) const;

  Call call_;
  int read_in_place_;
  Make make_;

  std::uint32_t number_ = 0;
  std::uint32_t turn_ = 0;
  bool posted_ = false;
  bool in_place_ = false;
  bool compared_with_one_ = false;
  bool compared_with_all_ = false;
  std::unique_ptr<Rounds> rounds_;
  std::uint32_t filled_ = 0, reduced_ = 0, drained_ = 0;  // Steps made.
};

}  // namespace accelerate::detail
