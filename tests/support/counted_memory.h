// Counts what tensors take, where LibTorch allocates.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <memory>

namespace accelerate::testing {

/// The bytes that tensors of the CPU have that were made since, on all threads: now and at most.
/// Tensors may outlive it.
class CountedMemory : public at::Allocator {
 public:
  CountedMemory() : inner_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, kPriority); }
  ~CountedMemory() override { c10::SetCPUAllocator(inner_, kPriority); }
  CountedMemory(const CountedMemory&) = delete;
  CountedMemory& operator=(const CountedMemory&) = delete;

  at::DataPtr allocate(std::size_t bytes) override {
    auto block = std::make_unique<Block>(Block{inner_->allocate(bytes), bytes, counts_});
    const std::size_t live = counts_->live += bytes;
    auto& most = counts_->peak;
    for (auto peak = most.load(); peak < live && !most.compare_exchange_weak(peak, live);) {
    }
    void* data = block->memory.get();
    return {data, block.release(), &release, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  [[nodiscard]] std::size_t peak() const { return counts_->peak; }

 private:
  struct Counts {
    std::atomic<std::size_t> live{0}, peak{0};
  };
  struct Block {
    at::DataPtr memory;
    std::size_t bytes;
    std::shared_ptr<Counts> counts;
  };
  static constexpr std::uint8_t kPriority = 100;
  static void release(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    block->counts->live -= block->bytes;
  }
  at::Allocator* inner_;
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

}  // namespace accelerate::testing
