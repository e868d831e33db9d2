// Memory of gradients on a rank, and how much of it there is.
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

  /// A buffer of at least `bytes` bytes for what travels; units use the same ones in turn.
  [[nodiscard]] at::Tensor take_slot(std::size_t bytes);
  void give_back(at::Tensor slot) { slots_.give_back(std::move(slot)); }

  /// Memory of one unit alone: a new tensor {numel}.
  [[nodiscard]] at::Tensor allocate(std::int64_t numel, const at::TensorOptions& options);
  /// Lets it go, if there is any.
  void release(at::Tensor& memory);

  /// Of all there is, free slots too, and the most there ever was.
  [[nodiscard]] std::size_t bytes() const { return allocated_bytes_ + slots_.bytes(); }
  [[nodiscard]] std::size_t peak_bytes() const { return peak_bytes_; }

 private:
  void note_peak();

  SlotPool slots_;
  std::size_t allocated_bytes_ = 0, peak_bytes_ = 0;
};

}  // namespace accelerate::detail
