#include "accelerate/comm/shared_memory/arena.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "accelerate/base/error.h"
#include "tests/comm/shared_memory/mebibyte.h"

namespace accelerate::detail {
namespace {

std::size_t bytes_on_the_system(const SharedArena& arena) {
  struct stat status{};
  EXPECT_EQ(fstat(arena.fd(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

bool all_bytes_are(const SharedArena::Block& block, int value) {
  return std::all_of(block.data(), block.data() + block.size(),
                     [value](std::byte byte) { return byte == static_cast<std::byte>(value); });
}

TEST(SharedArena, BlocksAreAlignedToLinesAndLargeOnesToPages) {
  const auto arena = SharedArena::create();
  const auto odd = arena->allocate(1);
  for (const std::size_t bytes :
       {0UL, 1UL, 63UL, 64UL, 65UL, 65'535UL, 65'536UL, 3 * testing::kMiB}) {
    const auto block = arena->allocate(bytes);
    EXPECT_EQ(block.size(), bytes);
    EXPECT_EQ(block.extent().bytes, bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % (bytes < 65'536 ? 64 : 4096), 0U);
  }
}

TEST(SharedArena, ABlockIsWhereItsExtentSaysInTheFile) {
  const auto arena = SharedArena::create();
  const auto first = arena->allocate(100);
  const auto block = arena->allocate(3 * testing::kMiB);  // in a second segment
  block.data()[5] = std::byte{42};
  char byte = 0;
  EXPECT_EQ(pread(arena->fd(), &byte, 1, static_cast<off_t>(block.extent().offset + 5)), 1);
  EXPECT_EQ(byte, 42);
  EXPECT_EQ(arena->address_of(block.extent()), block.data());
  EXPECT_NE(first.extent().segment_offset, block.extent().segment_offset);
}

TEST(SharedArena, FreedBytesAreUsedAgain) {
  const auto arena = SharedArena::create();
  auto block = arena->allocate(testing::kMiB);
  const auto* where = block.data();
  const auto reserved = arena->bytes_reserved();
  block.reset();
  EXPECT_FALSE(block);
  EXPECT_EQ(arena->bytes_in_use(), 0U);
  EXPECT_EQ(arena->allocate(testing::kMiB).data(), where);
  EXPECT_EQ(arena->bytes_reserved(), reserved);
}

TEST(SharedArena, NeighboursThatAreFreedServeALargerBlock) {
  const auto arena = SharedArena::create();
  std::vector<SharedArena::Block> blocks;
  for (int i = 0; i < 32; ++i) blocks.push_back(arena->allocate(128 << 10));
  const auto reserved = arena->bytes_reserved();
  blocks.erase(blocks.begin() + 3, blocks.begin() + 9);
  blocks.push_back(arena->allocate(6 * (128 << 10)));
  EXPECT_EQ(arena->bytes_reserved(), reserved);
}

TEST(SharedArena, AMovedBlockIsGivenBackOnce) {
  const auto arena = SharedArena::create();
  auto a = arena->allocate(1000);
  auto b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): what a move leaves is the point
  EXPECT_EQ(arena->bytes_in_use(), 1024U);
  b = arena->allocate(2000);
  EXPECT_EQ(arena->bytes_in_use(), 2048U);
}

TEST(SharedArena, ABlockKeepsItsArenaAlive) {
  auto arena = SharedArena::create();
  const std::weak_ptr<SharedArena> watched = arena;
  auto block = arena->allocate(64);
  arena.reset();
  std::memset(block.data(), 1, block.size());
  EXPECT_FALSE(watched.expired());
  block.reset();
  EXPECT_TRUE(watched.expired());
}

// Blocks of random sizes, each filled with a number of its own that must still be there when it is
// freed: blocks that overlap would show.
class RandomUse {
 public:
  RandomUse(std::shared_ptr<SharedArena> arena, unsigned seed)
      : arena_(std::move(arena)), random_(seed) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const bool free_one = !blocks_.empty() && random_() % 100 < (blocks_.size() > 60 ? 80 : 40);
      free_one ? free_block(random_() % blocks_.size()) : add_block();
    }
    while (!blocks_.empty()) free_block(blocks_.size() - 1);
  }

 private:
  void add_block() {
    auto block = arena_->allocate(random_() % (std::size_t{1} << random_() % 20));
    const int fill = static_cast<int>(random_() % 256);
    std::memset(block.data(), fill, block.size());
    EXPECT_EQ(arena_->find(block.data(), block.size())->offset, block.extent().offset);
    blocks_.emplace_back(std::move(block), fill);
  }

  void free_block(std::size_t which) {
    EXPECT_TRUE(all_bytes_are(blocks_[which].first, blocks_[which].second));
    std::swap(blocks_[which], blocks_.back());
    blocks_.pop_back();
  }

  std::shared_ptr<SharedArena> arena_;
  std::mt19937 random_;
  std::vector<std::pair<SharedArena::Block, int>> blocks_;
};

TEST(SharedArena, RandomBlocksNeverOverlapAndLeaveNothingInUse) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const auto arena = SharedArena::create();
    RandomUse(arena, seed).run(2000);
    EXPECT_EQ(arena->bytes_in_use(), 0U);
    const auto reserved = arena->bytes_reserved();
    const auto whole = arena->allocate(4 * testing::kMiB);  // nothing is left in pieces
    EXPECT_EQ(arena->bytes_reserved(), reserved);
  }
}

TEST(SharedArena, ThreadsAllocateAtOnce) {
  const auto arena = SharedArena::create();
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([arena, seed] { RandomUse(arena, seed).run(1000); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(arena->bytes_in_use(), 0U);
}

TEST(SharedArena, FindsWhatLiesWhollyInsideIt) {
  const auto arena = SharedArena::create();
  const auto block = arena->allocate(1000);
  const auto found = arena->find(block.data() + 10, 500);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->offset, block.extent().offset + 10);
  EXPECT_EQ(found->bytes, 500U);
  EXPECT_EQ(found->segment_bytes, block.extent().segment_bytes);
}

TEST(SharedArena, DoesNotFindOtherMemory) {
  const auto arena = SharedArena::create();
  const auto block = arena->allocate(1000);
  const auto& extent = block.extent();
  const auto* start = block.data() - (extent.offset - extent.segment_offset);
  const int on_the_stack = 0;
  EXPECT_FALSE(arena->find(nullptr, 0));
  EXPECT_FALSE(arena->find(&on_the_stack, sizeof on_the_stack));
  EXPECT_FALSE(arena->find(start - 1, 10));
  EXPECT_TRUE(arena->find(start, extent.segment_bytes));
  EXPECT_FALSE(arena->find(start, extent.segment_bytes + 1));
  EXPECT_FALSE(arena->find(start + 1, SIZE_MAX));
  EXPECT_FALSE(SharedArena::create()->find(block.data(), 1));
}

TEST(SharedArena, AreFoundWhileOtherThreadsMakeItGrow) {
  const auto arena = SharedArena::create();
  const auto block = arena->allocate(64);
  std::thread grows([&arena] {
    std::vector<SharedArena::Block> blocks;
    for (int i = 0; i < 20; ++i) blocks.push_back(arena->allocate(3 * testing::kMiB));
  });
  for (int i = 0; i < 200'000; ++i) EXPECT_TRUE(arena->find(block.data(), 64));
  grows.join();
}

TEST(SharedArena, TakesFewSegmentsOfGrowingSize) {
  const auto arena = SharedArena::create();
  std::vector<SharedArena::Block> blocks;
  std::set<std::uint64_t> segments;
  for (int i = 0; i < 200; ++i) {
    blocks.push_back(arena->allocate(testing::kMiB));
    segments.insert(blocks.back().extent().segment_offset);
  }
  EXPECT_LE(segments.size(), 14U);
  EXPECT_LE(arena->bytes_reserved(), 200 * testing::kMiB * 3 / 2);
}

TEST(SharedArena, AllThatIsReservedIsReallyThere) {
  const auto arena = SharedArena::create();
  const auto block = arena->allocate(20 * testing::kMiB);
  EXPECT_EQ(bytes_on_the_system(*arena), arena->bytes_reserved());
}

TEST(SharedArena, GivesALargeSegmentBackAndReservesItAgain) {
  const auto arena = SharedArena::create();
  const auto at_first = arena->bytes_reserved();
  auto block = arena->allocate(300 * testing::kMiB);
  const auto* where = block.data();
  std::memset(block.data(), 7, block.size());
  block.reset();
  EXPECT_EQ(arena->bytes_reserved(), at_first);
  EXPECT_EQ(bytes_on_the_system(*arena), at_first);
  block = arena->allocate(299 * testing::kMiB);
  EXPECT_EQ(block.data(), where);
  EXPECT_EQ(bytes_on_the_system(*arena), arena->bytes_reserved());
  EXPECT_TRUE(all_bytes_are(block, 0));
}

TEST(SharedArena, DoesNotReserveALargeSegmentAgainForASmallBlock) {
  const auto arena = SharedArena::create();
  arena->allocate(300 * testing::kMiB).reset();
  const auto block = arena->allocate(5 * testing::kMiB);
  EXPECT_LT(arena->bytes_reserved(), 20 * testing::kMiB);
}

TEST(SharedArena, KeepsAModestSegmentForTheNextBlock) {
  const auto arena = SharedArena::create();
  arena->allocate(64 * testing::kMiB).reset();
  EXPECT_GE(arena->bytes_reserved(), 64 * testing::kMiB);
}

TEST(SharedArena, MakesTensorsThatLiveLongerThanEverythingElse) {
  auto arena = SharedArena::create();
  const std::weak_ptr<SharedArena> watched = arena;
  auto tensor = arena->empty({3, 5}, at::kDouble);
  EXPECT_TRUE(arena->find(tensor.data_ptr(), tensor.nbytes()));
  auto view = tensor.fill_(2.5).select(0, 1);
  tensor.reset();
  arena.reset();
  EXPECT_DOUBLE_EQ(view.sum().item<double>(), 12.5);
  view.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(SharedArena, MakesTensorsOfAnyTypeAndShape) {
  const auto arena = SharedArena::create();
  for (const auto type : {at::kBool, at::kByte, at::kLong, at::kHalf, at::kBFloat16,
                          at::kComplexDouble, at::kFloat8_e4m3fn}) {
    const auto tensor = arena->empty({2, 0, 3}, type);
    EXPECT_EQ(tensor.scalar_type(), type);
    EXPECT_EQ(tensor.sizes(), (at::IntArrayRef{2, 0, 3}));
    EXPECT_TRUE(arena->empty({}, type).is_contiguous());
  }
  const auto images = at::TensorOptions().memory_format(at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(arena->empty({2, 3, 4, 5}, images).strides(), (at::IntArrayRef{60, 1, 15, 3}));
  EXPECT_TRUE(arena->empty({2}, at::TensorOptions().requires_grad(true)).requires_grad());
}

TEST(SharedArena, RefusesTensorsThatCannotLieInIt) {
  const auto arena = SharedArena::create();
  EXPECT_THROW((void)arena->empty({1}, at::kCUDA), UsageError);
  EXPECT_THROW((void)arena->empty({1}, at::TensorOptions().layout(at::kSparse)), UsageError);
  EXPECT_THROW((void)arena->empty({1}, at::TensorOptions().pinned_memory(true)), UsageError);
  EXPECT_ANY_THROW((void)arena->empty({-1}, at::kFloat));
  EXPECT_ANY_THROW((void)arena->empty({INT64_MAX, INT64_MAX}, at::kFloat));
}

}  // namespace
}  // namespace accelerate::detail
