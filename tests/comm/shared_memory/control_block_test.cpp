// The layout of the memory that a group shares.
#include "accelerate/comm/shared_memory/control_block.h"

#include <gtest/gtest.h>

#include <cstring>

#include <cstdlib>
#include <memory>

namespace accelerate::detail {
namespace {

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

std::unique_ptr<std::byte, Free> memory_of(std::size_t bytes) {
  const std::size_t lines = (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  return std::unique_ptr<std::byte, Free>(
      static_cast<std::byte*>(std::aligned_alloc(kCacheLine, lines)));
}

TEST(ControlBlock, HasALineForEveryPeerInASlotHoweverManyThereAre) {
  for (const int size : {1, 2, 8, 64, 257, 258, 512, 1000}) {
    const ControlBlock block(nullptr, size);
    EXPECT_GE(block.slot_bytes(), kCacheLine * static_cast<std::size_t>(size - 1)) << size;
    EXPECT_EQ(block.slot_bytes() % kCacheLine, 0U) << size;
  }
}

TEST(ControlBlock, SlotsDoNotOverlapAndEndWithTheBlock) {
  for (const int size : {1, 2, 5}) {
    const std::size_t bytes = ControlBlock::bytes_for(size);
    const auto memory = memory_of(bytes);
    const ControlBlock block(memory.get(), size);
    const std::byte* end = reinterpret_cast<const std::byte*>(&block.lines(size - 1) + 1);
    for (int rank = 0; rank < size; ++rank) {
      for (std::uint32_t turn = 0; turn < kSlots; ++turn) {
        EXPECT_EQ(block.slot(rank, turn), end);
        EXPECT_EQ(block.slot(rank, turn + kSlots), end) << "a ring";
        end += block.slot_bytes();
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      for (std::uint32_t turn = 0; turn < kSlots; ++turn) {
        EXPECT_EQ(block.mail_slot(rank, turn), end);
        end += block.mail_slot_bytes();
      }
    }
    EXPECT_EQ(end + kCacheLine, memory.get() + bytes) << "the mark";
  }
}

TEST(ControlBlock, IsToldFromOtherMemoryAndFromOneOfAnotherSize) {
  const auto memory = memory_of(ControlBlock::bytes_for(3));
  std::memset(memory.get(), 0, ControlBlock::bytes_for(3));
  EXPECT_FALSE(ControlBlock::is_at(memory.get(), 3));
  ControlBlock::begin(memory.get(), 3);
  EXPECT_TRUE(ControlBlock::is_at(memory.get(), 3));
  EXPECT_FALSE(ControlBlock::is_at(memory.get(), 2));
}

TEST(ControlBlock, AReasonIsCutToFit) {
  const auto memory = memory_of(ControlBlock::bytes_for(2));
  auto* const base = memory.get();
  const ControlBlock block(base, 2);
  ControlBlock::begin(base, 2);
  block.leave(1, Standing::gave_up, std::string(5000, 'x'));
  EXPECT_EQ(block.lines(1).standing.load(), Standing::gave_up);
  EXPECT_EQ(block.reason(1), std::string(sizeof(RankLines::reason) - 1, 'x'));
  EXPECT_EQ(block.lines(0).standing.load(), Standing::taking_part);
}

}  // namespace
}  // namespace accelerate::detail
