#include "accelerate/tokenizers/models/merges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <map>
#include <utility>

namespace accelerate::detail {
namespace {

constexpr std::size_t kShort = 48;

struct Link {
  std::uint32_t before, behind;
};

// The places of a word at which one merge may apply. The first `done` are past.
struct Waiting {
  std::vector<std::uint32_t> places;
  std::size_t done = 0;
  bool is_sorted = true;

  void add(std::uint32_t place) {
    is_sorted = is_sorted && (places.empty() || places.back() <= place);
    places.push_back(place);
  }
  // Returns the leftmost place, and takes it out; kNoId if none is left.
  std::uint32_t take() {
    if (done == places.size()) return kNoId;
    if (!is_sorted) std::sort(places.begin() + static_cast<std::ptrdiff_t>(done), places.end());
    is_sorted = true;
    return places[done++];
  }
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
      std::uint32_t at = 0;
      while (by_rank_.begin() == lowest && (at = lowest->second.take()) != kNoId) merge(rank, at);
      if (at == kNoId) by_rank_.erase(lowest);
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
  std::map<std::uint32_t, Waiting> by_rank_;
};

}  // namespace

void Merges::reserve(std::size_t merges) {
  pairs_.reserve(merges);
  grow(64 - std::countr_zero(std::bit_ceil(2 * std::max<std::size_t>(merges, 8))));
}

void Merges::grow(int shift) {
  const auto before = std::exchange(slots_, std::vector<Slot>(std::size_t{1} << (64 - shift)));
  shift_ = shift;
  for (const Slot& slot : before) {
    if (slot.rank != kNoId) slots_[slot_of(pairs_[slot.rank].left, pairs_[slot.rank].right)] = slot;
  }
}

void Merges::add(std::uint32_t left, std::uint32_t right, Merge merge) {
  if (2 * (used_ + 1) > slots_.size()) grow(shift_ - 1);
  Slot& slot = slots_[slot_of(left, right)];
  if (slot.rank == kNoId) ++used_;
  slot = {check_of(hash_of(left, right)), merge.rank};
  if (merge.rank >= pairs_.size()) pairs_.resize(std::size_t{merge.rank} + 1);
  pairs_[merge.rank] = {left, right, merge.id};
}

void Merges::apply(std::vector<Symbol>& symbols) const {
  if (symbols.size() <= kShort) return apply_to_short(symbols);
  LongWord(*this, symbols).merge_all();
}

void Merges::apply_to_short(std::vector<Symbol>& symbols) const {
  std::array<Merge, kShort> next;  // What symbols i and i + 1 become.
  std::size_t count = symbols.size();
  const auto look_up = [&](std::size_t i) {
    next[i] = i + 1 < count ? find(symbols[i].id, symbols[i + 1].id) : Merge{};
  };
  for (std::size_t i = 0; i < count; ++i) look_up(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (next[i].rank < next[best].rank) best = i;
    }
    if (next[best].rank == kNoId) break;
    symbols[best] = {next[best].id, symbols[best].bytes + symbols[best + 1].bytes};
    std::copy(symbols.data() + best + 2, symbols.data() + count, symbols.data() + best + 1);
    std::copy(next.data() + best + 2, next.data() + count, next.data() + best + 1);
    --count;
    look_up(best);
    if (best > 0) look_up(best - 1);
  }
  symbols.resize(count);
}

}  // namespace accelerate::detail
