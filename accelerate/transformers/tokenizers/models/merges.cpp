#include "accelerate/transformers/tokenizers/models/merges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "accelerate/transformers/tokenizers/models/waiting_places.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kShort = 48;

// Returns the least of the first `count` numbers, and of those up to the next multiple of four. One
// chain of comparisons would wait for each before the next.
std::uint64_t lowest_of(const std::array<std::uint64_t, kShort>& numbers, std::size_t count) {
  std::uint64_t a = numbers[0], b = numbers[1], c = numbers[2], d = numbers[3];
  for (std::size_t i = 4; i < count; i += 4) {
    a = std::min(a, numbers[i]);
    b = std::min(b, numbers[i + 1]);
    c = std::min(c, numbers[i + 2]);
    d = std::min(d, numbers[i + 3]);
  }
  return std::min(std::min(a, b), std::min(c, d));
}

struct Link {
  std::uint32_t before, behind;
};

// A long word while its symbols are merged. Most merges of a word wait in long lists of one rank, so
// lists by rank are quicker than one queue of all.
class LongWord {
 public:
  LongWord(const Merges& merges, std::vector<Symbol>& symbols)
      : merges_(merges), symbols_(symbols), links_(symbols.size()), is_gone_(symbols.size()) {
    const auto count = static_cast<std::uint32_t>(symbols.size());
    for (std::uint32_t i = 0; i < count; ++i) links_[i] = {i - 1, i + 1};
    for (std::uint32_t i = 0; i + 1 < count; ++i) offer(i);
  }

  void merge_all() {
    while (!by_rank_.empty()) {
      const auto lowest = by_rank_.begin();
      const std::uint32_t rank = lowest->first;
      std::optional<std::uint32_t> at = 0;
      while (by_rank_.begin() == lowest && (at = lowest->second.take())) merge(rank, *at);
      if (!at) by_rank_.erase(lowest);
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < symbols_.size(); ++i) {
      if (!is_gone_[i]) symbols_[kept++] = symbols_[i];
    }
    symbols_.resize(kept);
  }

 private:
  void offer(std::uint32_t at) {
    const Merge merge = merges_.find(symbols_[at].id, symbols_[links_[at].behind].id);
    if (merge.rank != kNoId) by_rank_[merge.rank].add(at);
  }

  // Merges the symbol at `at` with the next one, if that still is a merge of this rank.
  void merge(std::uint32_t rank, std::uint32_t at) {
    const std::uint32_t right = links_[at].behind;
    if (is_gone_[at] || right >= symbols_.size()) return;
    const Merge merge = merges_.find(symbols_[at].id, symbols_[right].id);
    if (merge.rank != rank) return;
    symbols_[at] = {merge.id, symbols_[at].bytes + symbols_[right].bytes};
    is_gone_[right] = true;
    links_[at].behind = links_[right].behind;
    if (links_[right].behind < symbols_.size()) {
      links_[links_[right].behind].before = at;
      offer(at);
    }
    if (at > 0) offer(links_[at].before);
  }

  const Merges& merges_;
  std::vector<Symbol>& symbols_;
  std::vector<Link> links_;
  std::vector<bool> is_gone_;
  std::map<std::uint32_t, WaitingPlaces<std::uint32_t>> by_rank_;
};

}  // namespace

void Merges::reserve(std::size_t merges) {
  grow(64 - std::countr_zero(std::bit_ceil(2 * std::max<std::size_t>(merges, 8))));
}

void Merges::grow(int shift) {
  const auto before = std::exchange(slots_, std::vector<Slot>(std::size_t{1} << (64 - shift)));
  shift_ = shift;
  for (const Slot& slot : before) {
    if (slot.key != kFree) slots_[slot_of(slot.key)] = slot;
  }
}

void Merges::add(std::uint32_t left, std::uint32_t right, Merge merge) {
  if (2 * (used_ + 1) > slots_.size()) grow(shift_ - 1);
  const std::uint64_t key = key_of(left, right);
  Slot& slot = slots_[slot_of(key)];
  if (slot.key == kFree) ++used_;
  slot = {key, merge};
}

void Merges::apply(std::vector<Symbol>& symbols) const {
  if (symbols.size() <= kShort) return apply_to_short(symbols);
  LongWord(*this, symbols).merge_all();
}

// The symbols stay where they are, linked to their neighbours, and the lowest rank is searched for
// without branches: to guess them wrong would cost more than the words are long.
void Merges::apply_to_short(std::vector<Symbol>& symbols) const {
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  const auto count = static_cast<std::uint8_t>(symbols.size());
  // The rank of each symbol's merge with the next symbol, and the symbol's place.
  std::array<std::uint64_t, kShort> next;
  std::array<std::uint32_t, kShort> merged;
  std::array<std::uint8_t, kShort + 1> before, behind;
  const auto look_up = [&](std::uint8_t at) {
    const Merge merge = behind[at] < count ? find(symbols[at].id, symbols[behind[at]].id) : Merge{};
    next[at] = std::uint64_t{merge.rank} << 32 | at;
    merged[at] = merge.id;
  };
  for (std::uint8_t i = 0; i < count; ++i) {
    before[i] = static_cast<std::uint8_t>(i - 1);
    behind[i] = static_cast<std::uint8_t>(i + 1);
    look_up(i);
  }
  for (std::size_t i = count; i % 4 != 0; ++i) next[i] = kNone;
  while (count > 0) {
    const std::uint64_t lowest = lowest_of(next, count);
    if (lowest >> 32 == kNoId) break;
    const auto at = static_cast<std::uint8_t>(lowest & 0xFF);
    const std::uint8_t right = behind[at];
    symbols[at] = {merged[at], symbols[at].bytes + symbols[right].bytes};
    next[right] = kNone;
    behind[at] = behind[right];
    before[behind[at]] = at;
    look_up(at);
    if (at > 0) look_up(before[at]);
  }
  std::size_t kept = 0;
  for (std::size_t at = 0; at < count; at = behind[at]) symbols[kept++] = symbols[at];
  symbols.resize(kept);
}

}  // namespace accelerate::detail
