// The merges of byte-pair encoding: which two tokens become one, and in which order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "accelerate/transformers/tokenizers/models/word_table.h"

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
    return slots_[slot_of(key_of(left, right))].merge;
  }

  /// Merges neighbours until no merge applies: the lowest rank first, the leftmost of equal ranks.
  /// Cost: n² for words of up to 48 symbols, n·log n for longer ones.
  void apply(std::vector<Symbol>& symbols) const;

 private:
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};

  [[nodiscard]] static std::uint64_t key_of(std::uint32_t left, std::uint32_t right) {
    return std::uint64_t{left} << 32 | right;
  }
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const {
    std::size_t at = (key * 0x9E3779B97F4A7C15) >> shift_;
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow(int shift);
  void apply_to_short(std::vector<Symbol>& symbols) const;

  std::vector<Slot> slots_ = std::vector<Slot>(16);
  int shift_ = 60;
  std::size_t used_ = 0;
};

}  // namespace accelerate::detail
