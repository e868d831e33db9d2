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

/// What was found of the pairs of tokens that were looked up last. Text repeats its pairs, and these
/// 64 KiB stay near, where the table of all merges does not. For one thread at a time.
class RecentPairs {
 public:
  /// Returns what is remembered of the pair, else remembers what `find()` returns.
  template <typename Find>
  Merge look_up(std::uint32_t left, std::uint32_t right, const Find& find) {
    if (pairs_.empty()) pairs_.resize(std::size_t{1} << kBits);
    const std::uint64_t key = std::uint64_t{left} << 32 | right;
    Pair& pair = pairs_[key * 0x9E3779B97F4A7C15 >> (64 - kBits)];
    if (pair.key != key) pair = {key, find()};
    return pair.merge;
  }

 private:
  static constexpr int kBits = 12;
  struct Pair {
    std::uint64_t key = ~std::uint64_t{0};
    Merge merge;
  };
  std::vector<Pair> pairs_;
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
  void apply(std::vector<Symbol>& symbols, RecentPairs& recent) const;

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
  void apply_to_short(std::vector<Symbol>& symbols, RecentPairs& recent) const;

  std::vector<Slot> slots_ = std::vector<Slot>(16);
  int shift_ = 60;
  std::size_t used_ = 0;
};

}  // namespace accelerate::detail
