// Buffers that are used again: fresh memory costs five times as much as the copy into it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "accelerate/base/transfer_queue.h"

namespace accelerate::detail {

class SlotPool {
 public:
  using Allocate = std::function<at::Tensor(std::size_t bytes)>;

  /// `allocate` makes byte tensors.
  explicit SlotPool(Allocate allocate) : allocate_(std::move(allocate)) {}

  /// Returns a buffer of at least `bytes` bytes: the smallest free one of at most twice that size,
  /// else a new one. Before it makes a new buffer it gives up the free ones.
  [[nodiscard]] at::Tensor take(std::size_t bytes);
  void give_back(at::Tensor slot);

  /// The bytes of all buffers, in use or free, and the largest number so far.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t peak_bytes() const { return peak_bytes_; }

 private:
  Allocate allocate_;
  std::vector<at::Tensor> free_;
  std::size_t bytes_ = 0, peak_bytes_ = 0;
};

/// Allocates the memory of gradients on a rank, and counts it.
class GradientMemory {
 public:
  /// `allocate` makes the byte tensors of slots.
  explicit GradientMemory(SlotPool::Allocate allocate) : slots_(std::move(allocate)) {}

  /// Returns a buffer of at least `bytes` bytes for gradients under way. Units use the same buffers
  /// in turn.
  [[nodiscard]] at::Tensor take_slot(std::size_t bytes);
  void give_back(at::Tensor slot) { slots_.give_back(std::move(slot)); }
  /// As give_back(), when `use` of the slot is over.
  void give_back_after(Transfer use, at::Tensor slot);
  /// Keeps `memory`, which is no slot, until `use` of it is over.
  void keep_during(Transfer use, at::Tensor memory);
  /// Waits until no slot is in use by a transfer. Throws FileError if a transfer failed.
  void settle();
  /// As settle(), and ignores failures.
  void abandon() noexcept;

  /// Returns memory for one unit: a new tensor {numel}.
  [[nodiscard]] at::Tensor allocate(std::int64_t numel, const at::TensorOptions& options);
  /// Releases `memory`, if it is defined.
  void release(at::Tensor& memory);

  /// The bytes of all memory, free slots included, and the largest number so far.
  [[nodiscard]] std::size_t bytes() const { return allocated_bytes_ + slots_.bytes(); }
  [[nodiscard]] std::size_t peak_bytes() const { return peak_bytes_; }

 private:
  void note_peak();

  void wait_for_oldest();

  SlotPool slots_;
  struct Draining {
    at::Tensor slot, memory;
    Transfer use;  // Last: its destructor waits.
  };
  std::deque<Draining> draining_;
  std::size_t allocated_bytes_ = 0, peak_bytes_ = 0;
};

}  // namespace accelerate::detail
