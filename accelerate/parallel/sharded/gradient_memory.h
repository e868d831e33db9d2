// Allocates the memory of gradients on a rank, and counts it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "accelerate/parallel/sharded/slot_pool.h"

namespace accelerate::detail {

class GradientMemory {
 public:
  /// `allocate` makes the byte tensors of slots.
  explicit GradientMemory(SlotPool::Allocate allocate) : slots_(std::move(allocate)) {}

  /// Returns a buffer of at least `bytes` bytes for gradients under way. Units use the same buffers
  /// in turn.
  [[nodiscard]] at::Tensor take_slot(std::size_t bytes);
  void give_back(at::Tensor slot) { slots_.give_back(std::move(slot)); }

  /// Returns memory for one unit: a new tensor {numel}.
  [[nodiscard]] at::Tensor allocate(std::int64_t numel, const at::TensorOptions& options);
  /// Releases `memory`, if it is defined.
  void release(at::Tensor& memory);

  /// The bytes of all memory, free slots included, and the largest number so far.
  [[nodiscard]] std::size_t bytes() const { return allocated_bytes_ + slots_.bytes(); }
  [[nodiscard]] std::size_t peak_bytes() const { return peak_bytes_; }

 private:
  void note_peak();

  SlotPool slots_;
  std::size_t allocated_bytes_ = 0, peak_bytes_ = 0;
};

}  // namespace accelerate::detail
