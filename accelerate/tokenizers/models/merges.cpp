#include "accelerate/tokenizers/models/merges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>
#include <utility>

namespace accelerate::detail {
namespace {

constexpr std::size_t kShort = 48;

// Two neighbours that may be merged, the left one at `at`.
struct Candidate {
  std::uint32_t rank, at, id;
  bool operator>(const Candidate& other) const {
    return std::pair(rank, at) > std::pair(other.rank, other.at);
  }
};

struct Link {
  std::uint32_t before, behind;
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
  const std::uint64_t key = std::uint64_t{left} << 32 | right;
  Slot& slot = slots_[slot_of(key)];
  if (slot.key == kFree) ++used_;
  slot = {key, merge};
}

void Merges::apply(std::vector<Symbol>& symbols) const {
  if (symbols.size() <= kShort) return apply_to_short(symbols);
  apply_to_long(symbols);
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

void Merges::apply_to_long(std::vector<Symbol>& symbols) const {
  const auto count = static_cast<std::uint32_t>(symbols.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  std::vector<Link> links(count);
  std::vector<bool> is_gone(count);
  const auto offer = [&](std::uint32_t at) {
    const Merge merge = find(symbols[at].id, symbols[links[at].behind].id);
    if (merge.rank != kNoId) queue.push({merge.rank, at, merge.id});
  };
  for (std::uint32_t i = 0; i < count; ++i) links[i] = {i - 1, i + 1};
  for (std::uint32_t i = 0; i + 1 < count; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    const std::uint32_t right = links[top.at].behind;
    if (is_gone[top.at] || right >= count) continue;
    if (find(symbols[top.at].id, symbols[right].id).id != top.id) continue;  // Out of date.
    symbols[top.at] = {top.id, symbols[top.at].bytes + symbols[right].bytes};
    is_gone[right] = true;
    links[top.at].behind = links[right].behind;
    if (links[right].behind < count) {
      links[links[right].behind].before = top.at;
      offer(top.at);
    }
    if (top.at > 0) offer(links[top.at].before);
  }
  std::size_t kept = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!is_gone[i]) symbols[kept++] = symbols[i];
  }
  symbols.resize(kept);
}

}  // namespace accelerate::detail
