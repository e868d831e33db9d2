// The merges of byte-pair encoding: which two tokens become one, and in which order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "accelerate/tokenizers/models/word_table.h"

namespace accelerate::detail {

/// A part of a word while tokens are merged.
struct Symbol {
  std::uint32_t id, bytes;
};

struct Merge {
  std::uint32_t rank = kNoId;  ///< kNoId: the two are not merged.
  std::uint32_t id = kNoId;
};

class Merges {
 public:
  void reserve(std::size_t merges);
  /// Adds a merge, in place of an earlier merge of the same two tokens.
  void add(std::uint32_t left, std::uint32_t right, Merge merge);
  [[nodiscard]] Merge find(std::uint32_t left, std::uint32_t right) const {
    const std::uint32_t rank = slots_[slot_of(left, right)].rank;
    return rank == kNoId ? Merge{} : Merge{rank, pairs_[rank].id};
  }

  /// Merges neighbours until no merge applies: the lowest rank first, the leftmost of equal ranks.
  /// Cost: n² for words of up to 48 symbols, n·log n for longer ones.
  void apply(std::vector<Symbol>& symbols) const;

 private:
  // Most pairs have no merge. Slots are small, so that the table that tells so stays near.
  struct Slot {
    std::uint32_t check = 0;
    std::uint32_t rank = kNoId;  // kNoId: free.
  };
  struct Pair {
    std::uint32_t left = kNoId, right = kNoId, id = kNoId;
  };

  [[nodiscard]] static std::uint64_t hash_of(std::uint32_t left, std::uint32_t right) {
    return (std::uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15;
  }
  [[nodiscard]] static std::uint32_t check_of(std::uint64_t hash) {
    return static_cast<std::uint32_t>(hash >> 12);
  }
  // Returns where the pair is, or the free slot where it would be.
  [[nodiscard]] std::size_t slot_of(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t hash = hash_of(left, right);
    for (std::size_t at = hash >> shift_;; at = (at + 1) & (slots_.size() - 1)) {
      const Slot slot = slots_[at];
      if (slot.rank == kNoId) return at;
      if (slot.check != check_of(hash)) continue;
      if (pairs_[slot.rank].left == left && pairs_[slot.rank].right == right) return at;
    }
  }
  void grow(int shift);
  void apply_to_short(std::vector<Symbol>& symbols) const;

  std::vector<Slot> slots_ = std::vector<Slot>(16);
  std::vector<Pair> pairs_;  // By rank.
  int shift_ = 60;
  std::size_t used_ = 0;
};

}  // namespace accelerate::detail
