// Tells whether a tensor was written since a moment, at next to no cost.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace accelerate::detail {

/// What a tensor was like. Its version counts writes, but not those through `tensor.data()`, which
/// is how LibTorch's SGD steps. On the CPU a few values from all over the tensor show those too; on
/// other devices, where reading waits for the device, values count only where the version moved.
/// Cost: on the CPU a few loads, elsewhere a copy of the few values.
class WriteMark {
 public:
  explicit WriteMark(const at::Tensor& tensor);

  /// Whether the version moved, or a value is another.
  [[nodiscard]] bool is_written() const;
  /// Whether a value is another; not after a write that put back what was there.
  [[nodiscard]] bool is_changed() const;

 private:
  static constexpr std::int64_t kValues = 4;
  static constexpr std::size_t kWidest = 16;  // Bytes of an element.
  using Bytes = std::array<std::byte, static_cast<std::size_t>(kValues) * kWidest>;

  [[nodiscard]] Bytes bytes() const;
  [[nodiscard]] at::Tensor copy() const;

  at::Tensor tensor_;
  std::int64_t version_;
  Bytes bytes_;
  at::Tensor copy_;  // Of the values, on other devices.
};

}  // namespace accelerate::detail
