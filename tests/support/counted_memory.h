// Counts what tensors take, where LibTorch allocates.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace accelerate::testing {

/// The bytes that tensors of the CPU have that were made since, on all threads: now and at most.
/// Tensors may outlive it.
class CountedMemory : public at::Allocator {
 public:
  CountedMemory() : inner_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, kPriority); }
  ~CountedMemory() override { c10::SetCPUAllocator(inner_, kPriority); }
  CountedMemory(const CountedMemory&) = delete;
  CountedMemory& operator=(const CountedMemory&) = delete;

  // The context is the data, as code that calls raw_allocate() wants.
  at::DataPtr allocate(std::size_t bytes) override {
    TORCH_CHECK_WITH(OutOfMemoryError, least_failing_ == 0 || bytes < least_failing_,
                     "DefaultCPUAllocator: can't allocate memory: ", bytes, " bytes");
    at::DataPtr memory = inner_->allocate(bytes);
    void* const data = memory.get();
    if (data == nullptr) return memory;
    const std::size_t live = counts_->live += bytes;
    auto& most = counts_->peak;
    for (auto peak = most.load(); peak < live && !most.compare_exchange_weak(peak, live);) {
    }
    const std::lock_guard lock(blocks_mutex());
    blocks().insert_or_assign(data, Block{std::move(memory), bytes, counts_});
    return {data, data, &release, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  [[nodiscard]] std::size_t peak() const { return counts_->peak; }
  [[nodiscard]] std::size_t live() const { return counts_->live; }
  /// Begins to count the peak anew.
  void forget_peak() { counts_->peak = counts_->live.load(); }
  /// From now on, allocations of `bytes` or more fail as LibTorch's do; 0: none.
  void fail_from(std::size_t bytes) { least_failing_ = bytes; }

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
  static std::mutex& blocks_mutex() {
    static auto* mutex = new std::mutex;  // Tensors may live until the process ends.
    return *mutex;
  }
  static std::unordered_map<void*, Block>& blocks() {
    static auto* map = new std::unordered_map<void*, Block>;
    return *map;
  }
  static void release(void* data) {
    const std::lock_guard lock(blocks_mutex());
    const auto block = blocks().extract(data);
    if (block.empty()) return c10::GetDefaultCPUAllocator()->raw_deleter()(data);  // Older.
    block.mapped().counts->live -= block.mapped().bytes;
  }
  at::Allocator* inner_;
  std::atomic<std::size_t> least_failing_{0};
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

}  // namespace accelerate::testing
