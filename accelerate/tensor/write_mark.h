// Tells whether a tensor was written since the mark was made, at very low cost.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace accelerate::detail {

/// The bytes of four values from all over a tensor, or a hash of all values of a small one.
using SampledValues = std::array<std::byte, 64>;

/// Returns values of `tensor`, which must lie in readable memory of the CPU. Of a tensor of at most 4
/// KiB all values count. Of one that is not dense the first value alone does. Cost: a few loads, at
/// most 0.3 µs.
[[nodiscard]] SampledValues sample_values(const at::Tensor& tensor);

/// Remembers the state of a tensor. The tensor's version counts writes, but not writes through
/// `tensor.data()`, which LibTorch's SGD uses. On the CPU, four values from all over the tensor
/// reveal such writes too. On other devices, where reading waits for the device, values are
/// compared only if the version moved. Cost: on the CPU a few loads, elsewhere a copy of the four
/// values.
class WriteMark {
 public:
  /// Without `reads_values` the version alone counts: for a tensor whose memory is a file.
  explicit WriteMark(const at::Tensor& tensor, bool reads_values = true);

  /// Whether the version moved or a value changed.
  [[nodiscard]] bool is_written() const;
  /// Whether a value changed. False after a write that restored the values.
  [[nodiscard]] bool is_changed() const;

 private:
  [[nodiscard]] at::Tensor copy() const;

  at::Tensor tensor_;
  std::int64_t version_;
  bool reads_values_;
  SampledValues bytes_{};  // On the CPU.
  at::Tensor copy_;        // The values, on other devices.
};

}  // namespace accelerate::detail
