// What a step frees, large tensors included, the next one finds again.
#include "accelerate/tensor/compat/large_tensors.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "accelerate/base/heap.h"

namespace accelerate {
namespace {

// Settings of the heap last as long as the process: each case runs in one of its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // They bring their own heap.
TEST(LargeTensors, OfTheSecondStepAreFoundAgain) {
  const auto train = [] {
    compat::keep_freed_tensors();
    at::Tensor vocabulary = at::zeros({32768, 256}).requires_grad_();  // 32 MiB.
    const auto step = [&] {
      vocabulary.mutable_grad().reset();
      const at::Tensor words = at::embedding(vocabulary, at::randint(32768, {64, 32}, at::kLong));
      words.square().sum().backward();
    };
    step();
    step();
    const std::size_t mapped = large_blocks::times_mapped();
    for (int i = 0; i < 10; ++i) step();
    std::_Exit(mapped == 2 && large_blocks::times_mapped() == mapped ? 0 : 1);
  };
  EXPECT_EXIT(train(), ::testing::ExitedWithCode(0), "");
}

TEST(LargeTensors, OfEitherKindAreFreedRaw) {
  const auto free_both = [] {
    compat::keep_freed_tensors();
    c10::Allocator* const allocator = c10::GetCPUAllocator();
    allocator->raw_deallocate(allocator->raw_allocate(64));
    void* const large = allocator->raw_allocate(large_blocks::kLeast);
    allocator->raw_deallocate(large);
    std::_Exit(allocator->raw_allocate(large_blocks::kLeast) == large ? 0 : 1);
  };
  EXPECT_EXIT(free_both(), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(LargeTensors, LeaveTheUsersChoiceAlone) {
  const auto set_and_ask = [] {
    setenv("MALLOC_MMAP_THRESHOLD_", "131072", 1);
    compat::keep_freed_tensors();
    std::_Exit(c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator() ? 0 : 1);
  };
  EXPECT_EXIT(set_and_ask(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace accelerate
