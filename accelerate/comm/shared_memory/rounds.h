// A collective as rounds of three steps. In each round a rank fills its slot, reduces its slice of
// the data in all slots, and drains what it needs from its peers' slots. A rank may be a few rounds
// ahead of another. The engine makes a step when what it needs from the peers is there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "accelerate/comm/shared_memory/control_block.h"

namespace accelerate::detail {

/// Stand for ranks where a step says whose earlier steps it needs.
inline constexpr int kEveryone = -1;
inline constexpr int kNobody = -2;

class Rounds {
 public:
  /// What the steps of a round wait for, besides the same rank's earlier steps. Each need is a
  /// rank, kEveryone or kNobody.
  struct Needs {
    bool reduces = false;            ///< Whether a round has the middle step.
    int filled_to_reduce = kNobody;  ///< Who must have filled before this rank reduces.
    int filled_to_drain = kNobody;   ///< Who must have filled before this rank drains.
    int reduced_to_drain = kNobody;  ///< Who must have reduced before this rank drains.
  };

  Rounds(std::uint32_t count, Needs needs) : count_(count), needs_(needs) {}
  virtual ~Rounds() = default;
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] const Needs& needs() const { return needs_; }

  /// The slots of one round.
  struct Slots {
    const ControlBlock& block;
    std::uint32_t turn;  ///< The round's number since the group began.
    [[nodiscard]] std::byte* of(int rank) const { return block.slot(rank, turn); }
  };

  virtual void fill(std::uint32_t /*round*/, std::byte* /*own_slot*/) {}
  virtual void reduce(std::uint32_t /*round*/, const Slots& /*slots*/) {}
  virtual void drain(std::uint32_t /*round*/, const Slots& /*slots*/) {}

 private:
  std::uint32_t count_;
  Needs needs_;
};

}  // namespace accelerate::detail
