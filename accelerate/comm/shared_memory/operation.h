// A collective that a rank has called, and its progress.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/comm/shared_memory/call.h"
#include "accelerate/comm/shared_memory/control_block.h"
#include "accelerate/comm/shared_memory/rounds.h"

namespace accelerate::detail {

// A call under way on one rank.

class Pending {
 public:
  virtual ~Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  [[nodiscard]] bool is_done() const { return done_.load(std::memory_order_acquire); }
  /// The error of a call that is done; null if it succeeded.
  [[nodiscard]] const std::exception_ptr& error() const { return error_; }

 protected:
  /// Holds `keep` until the call has ended.
  explicit Pending(std::shared_ptr<void> keep) : keep_(std::move(keep)) {}

 private:
  friend class Engine;

  std::atomic<bool> done_ = false;
  std::exception_ptr error_;
  std::vector<std::function<void()>> followers_;
  std::shared_ptr<void> keep_;
};

/// What an engine needs to know about the other ranks. All arguments are ranks of the group.
class GroupPeers {
 public:
  virtual ~GroupPeers() = default;
  [[nodiscard]] virtual bool is_alive(int rank) const noexcept = 0;
  /// Returns e.g. "process 1234", and what is known about the process.
  [[nodiscard]] virtual std::string describe(int rank) const = 0;
  /// Returns where `extent` of the rank's memory file lies in this process. Throws CommError.
  [[nodiscard]] virtual std::byte* map(int rank, const SharedExtent& extent) = 0;
};

/// One rank of a group, with the group's control block.
struct Group {
  ControlBlock block;
  int rank = 0;
  GroupPeers& peers;

  [[nodiscard]] int size() const { return block.size(); }
  [[nodiscard]] RankLines& own() const { return block.lines(rank); }
  /// Returns the first rank of `who` (a rank, kEveryone or kNobody), except this rank, whose
  /// counter has not reached `target`; nullopt if all have.
  [[nodiscard]] std::optional<Blocked> blocked_on(int who, Counter RankLines::* counter,
                                                  std::uint32_t target) const;
};

class Operation final : public Pending {
 public:
  /// Makes the rounds when it is the operation's turn. `in_place` is empty, or holds by rank the
  /// address in this process of the memory to read; null for ranks whose memory is not read.
  using Make = std::function<std::unique_ptr<Rounds>(const std::vector<std::byte*>& in_place)>;

  /// From this number of bytes on, memory in the arena is used without a copy.
  static constexpr std::size_t kInPlaceFrom = std::size_t{64} << 10;

  /// `read_in_place` says whose memory an in-place version would read: a rank or kEveryone; kNobody
  /// if the operation has no such version. All but `call.where` and `call.in_arena` must be equal
  /// on all ranks.
  Operation(Call call, int read_in_place, Make make, std::shared_ptr<void> keep);

  [[nodiscard]] const Call& call() const { return call_; }

  /// Makes the steps that are possible. Returns what the operation waits for; nothing when all
  /// rounds are over. `number` is the number of the call and `turn` the number of its first round,
  /// counted since the group began; both are the same in each call. Throws CommError when peers
  /// make another call.
  [[nodiscard]] std::optional<Blocked> advance(const Group& group, std::uint32_t number,
                                               std::uint32_t turn);
  /// The number of rounds, once the operation has advanced far enough to know it; else 0.
  [[nodiscard]] std::uint32_t rounds() const { return rounds_ ? rounds_->count() : 0; }
  /// Whether peers may touch this rank's tensor while the operation is under way.
  [[nodiscard]] bool is_in_place() const { return in_place_; }

  /// Throws CommError when `peer` has already made its call of this number and it differs.
  void compare_with(const Group& group, int peer) const;

 private:
  // Each function makes a step, or returns what the step waits for.
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
  std::uint32_t filled_ = 0, reduced_ = 0, drained_ = 0;  // Steps made of each kind.
};

}  // namespace accelerate::detail
