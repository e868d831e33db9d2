// Buffers that are used again: fresh memory costs five times the copy into it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace accelerate::detail {

class SlotPool {
 public:
  using Allocate = std::function<at::Tensor(std::size_t bytes)>;

  /// `allocate` makes byte tensors.
  explicit SlotPool(Allocate allocate) : allocate_(std::move(allocate)) {}

  /// At least `bytes` bytes: the smallest free buffer that is not more than twice that, else a new
  /// one, for which free ones of other sizes are given up.
  [[nodiscard]] at::Tensor take(std::size_t bytes);
  void give_back(at::Tensor slot);

  /// Of all buffers, in use or not, and the most there ever were.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t peak_bytes() const { return peak_bytes_; }

 private:
  Allocate allocate_;
  std::vector<at::Tensor> free_;
  std::size_t bytes_ = 0, peak_bytes_ = 0;
};

}  // namespace accelerate::detail
