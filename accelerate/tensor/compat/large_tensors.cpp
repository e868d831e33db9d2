#include "accelerate/tensor/compat/large_tensors.h"

#include <c10/core/CPUAllocator.h>

#include <new>

#include "accelerate/base/heap.h"

namespace accelerate::compat {
namespace {

class LargeTensors final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes < large_blocks::kLeast) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    void* const block = large_blocks::take(bytes);
    // LibTorch's own error says how much memory was asked for.
    if (block == nullptr) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    c10::profiledCPUMemoryReporter().New(block, bytes);
    return {block, block, &free_large, c10::Device(c10::DeviceType::CPU)};
  }
  // Frees what raw_allocate() gave, of either kind.
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &free_any; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void free_large(void* block) {
    c10::profiledCPUMemoryReporter().Delete(block);
    large_blocks::give_back(block);
  }
  static void free_any(void* block) {
    if (large_blocks::owns(block)) return free_large(block);
    c10::GetDefaultCPUAllocator()->raw_deleter()(block);
  }
};

}  // namespace

void keep_freed_tensors() {
  if (!keep_freed_memory()) return;
  if (c10::GetCPUAllocator() != c10::GetDefaultCPUAllocator()) return;
  static auto* const allocator = new LargeTensors;  // LibTorch keeps it.
  c10::SetCPUAllocator(allocator);
}

}  // namespace accelerate::compat
