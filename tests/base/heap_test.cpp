#include "accelerate/base/heap.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

namespace {

using accelerate::keep_freed_memory;

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// What a training step does to the heap: blocks of several sizes, all freed at its end.
void take_and_free(std::size_t bytes) {
  std::vector<std::unique_ptr<char[]>> blocks;
  for (; bytes > 4096; bytes /= 2) {
    blocks.push_back(std::make_unique_for_overwrite<char[]>(bytes));
    std::memset(blocks.back().get(), 1, bytes);
  }
}

// Settings of the heap last as long as the process: each case runs in one of its own.
[[noreturn]] void exit_with(bool as_expected) {
  std::_Exit(as_expected ? 0 : 1);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // They bring their own heap.
TEST(Heap, FreedMemoryIsKeptForTheNextStep) {
  const auto few_faults = [] {
    const bool kept = keep_freed_memory();
    take_and_free(16 << 20);
    const long before = page_faults();
    for (int step = 0; step < 20; ++step) take_and_free(16 << 20);
    exit_with(kept && page_faults() - before < 1000);  // 20 × 8192 pages pass through its hands
  };
  EXPECT_EXIT(few_faults(), testing::ExitedWithCode(0), "");
}
#endif

TEST(Heap, WhatTheUserHasSetStays) {
  for (const char* name : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_",
                           "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES"}) {
    const auto set_and_ask = [&] {
      setenv(name, "131072", 1);
      exit_with(!keep_freed_memory());
    };
    EXPECT_EXIT(set_and_ask(), testing::ExitedWithCode(0), "") << name;
  }
}

constexpr std::size_t kMiB = std::size_t{1} << 20;
namespace large_blocks = accelerate::large_blocks;

// Each case in a process of its own: blocks are kept as long as the process lives.
TEST(LargeBlocks, AreKeptForBlocksOfTheirSize) {
  const auto kept = [] {
    void* const first = large_blocks::take(40 * kMiB);
    std::memset(first, 1, 40 * kMiB);
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(first) % (2 * kMiB) == 0;
    void* const other = large_blocks::take(40 * kMiB);
    const bool owned = large_blocks::owns(first) && large_blocks::owns(other);
    large_blocks::give_back(first);
    large_blocks::give_back(other);
    const bool gave = owned && !large_blocks::owns(first);
    const bool same = large_blocks::take(39 * kMiB) == first;  // The oldest of equals.
    void* const small = large_blocks::take(20 * kMiB);         // Half of `other` would lie idle.
    exit_with(is_aligned && gave && same && small != other && large_blocks::times_mapped() == 3);
  };
  EXPECT_EXIT(kept(), testing::ExitedWithCode(0), "");
}

TEST(LargeBlocks, OfOthersAreNotOwned) {
  const auto memory = std::make_unique<char[]>(64);
  EXPECT_FALSE(large_blocks::owns(memory.get()));
  EXPECT_FALSE(large_blocks::owns(nullptr));
}

// Where address space is short, blocks that lie idle are no reason to fail.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // They take terabytes of it.
TEST(LargeBlocks, AreReturnedBeforeMemoryEnds) {
  const auto short_of_memory = [] {
    large_blocks::give_back(large_blocks::take(400 * kMiB));
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    std::ifstream pages("/proc/self/statm");
    rlim_t mapped = 0;
    pages >> mapped;
    limit.rlim_cur = mapped * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + 200 * kMiB;
    setrlimit(RLIMIT_AS, &limit);
    exit_with(large_blocks::take(500 * kMiB) != nullptr &&
              large_blocks::take(500 * kMiB) == nullptr);
  };
  EXPECT_EXIT(short_of_memory(), testing::ExitedWithCode(0), "");
}
#endif

TEST(LargeBlocks, AreKeptUpToALimitAndReturned) {
  const auto limited = [] {
    std::vector<void*> blocks;
    for (int i = 0; i < 9; ++i) blocks.push_back(large_blocks::take(100 * kMiB));
    for (void* block : blocks) large_blocks::give_back(block);
    for (int i = 0; i < 5; ++i) (void)large_blocks::take(100 * kMiB);
    const bool keeps_five = large_blocks::times_mapped() == 9;
    for (void* block : blocks) {
      if (large_blocks::owns(block)) large_blocks::give_back(block);
    }
    accelerate::return_freed_memory();
    (void)large_blocks::take(100 * kMiB);
    exit_with(keeps_five && large_blocks::times_mapped() == 10);
  };
  EXPECT_EXIT(limited(), testing::ExitedWithCode(0), "");
}

}  // namespace
