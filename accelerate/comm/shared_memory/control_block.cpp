#include "accelerate/comm/shared_memory/control_block.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace accelerate::detail {
namespace {

// The slots of two ranks stay in the second-level cache of a core, those of many ranks in the
// third.
constexpr std::size_t kLargestSlot = std::size_t{256} << 10;
constexpr std::size_t kSmallestSlot = std::size_t{16} << 10;
constexpr std::size_t kSlotsOfAll = std::size_t{8} << 20;

std::size_t slot_bytes_for(int size) {
  const std::size_t share = kSlotsOfAll / (kSlots * static_cast<std::size_t>(size));
  // Some collectives need a cache line for every peer in a slot.
  const std::size_t lines = (static_cast<std::size_t>(size) * kCacheLine + kSmallestSlot - 1) /
                            kSmallestSlot * kSmallestSlot;
  return std::clamp(share / kSmallestSlot * kSmallestSlot, std::max(kSmallestSlot, lines),
                    std::max(kLargestSlot, lines));
}

std::size_t mail_slot_bytes_for(int size) {
  return slot_bytes_for(size) / 4;
}

// The mark at the end of a block.
struct Mark {
  alignas(kCacheLine) std::uint64_t magic = 0x316b636f6c626363;  // "ccblock1"
  std::uint64_t size = 0;
};

std::size_t bytes_before_mark(int size) {
  return static_cast<std::size_t>(size) *
         (sizeof(RankLines) + kSlots * (slot_bytes_for(size) + mail_slot_bytes_for(size)));
}

}  // namespace

ControlBlock::ControlBlock(std::byte* base, int size)
    : size_(size),
      slot_bytes_(slot_bytes_for(size)),
      mail_slot_bytes_(mail_slot_bytes_for(size)),
      lines_(reinterpret_cast<RankLines*>(base)),
      slots_(base + static_cast<std::size_t>(size) * sizeof(RankLines)),
      mail_(slots_ + static_cast<std::size_t>(size) * kSlots * slot_bytes_) {}

std::size_t ControlBlock::bytes_for(int size) {
  return bytes_before_mark(size) + sizeof(Mark);
}

bool ControlBlock::is_at(const std::byte* base, int size) {
  Mark mark;
  std::memcpy(&mark, base + bytes_before_mark(size), sizeof mark);
  return mark.magic == Mark().magic && mark.size == static_cast<std::uint64_t>(size);
}

void ControlBlock::begin(std::byte* base, int size, std::uint32_t first) {
  for (int rank = 0; rank < size; ++rank) {
    auto* lines = new (base + static_cast<std::size_t>(rank) * sizeof(RankLines)) RankLines();
    for (Counter* counter : {&lines->posted, &lines->filled, &lines->reduced, &lines->drained,
                             &lines->posted_messages}) {
      counter->raise_to(first);
    }
    for (Post& post : lines->posts) {
      for (Counter* counter : {&post.filled, &post.taken, &post.drained}) counter->raise_to(first);
    }
  }
  Mark mark;
  mark.size = static_cast<std::uint64_t>(size);
  std::memcpy(base + bytes_before_mark(size), &mark, sizeof mark);
}

void ControlBlock::leave(int rank, Standing standing, const std::string& reason) const noexcept {
  RankLines& own = lines(rank);
  const std::size_t length = std::min(reason.size(), sizeof(own.reason) - 1);
  std::memcpy(own.reason, reason.data(), length);
  own.reason[length] = '\0';
  own.standing.store(standing, std::memory_order_release);
  for (Counter* counter :
       {&own.posted, &own.filled, &own.reduced, &own.drained, &own.posted_messages}) {
    counter->wake();
  }
}

std::string ControlBlock::reason(int rank) const {
  const RankLines& theirs = lines(rank);
  return {theirs.reason, strnlen(theirs.reason, sizeof(theirs.reason))};
}

}  // namespace accelerate::detail
