#include "accelerate/base/heap.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
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

}  // namespace
