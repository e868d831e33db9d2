// Cuts long tensors into chunks and runs the chunks through stages, so that all stages work
// simultaneously.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace accelerate::detail {

/// Runs chunk k in stage s at time k + s, so that each stage works on a different chunk. All ranks
/// go through the stages in the same order, and so begin the same operations in the same order.
using Stage = std::function<void(std::int64_t chunk)>;
template <std::size_t kStages>
void run_pipeline(std::int64_t chunks, const std::array<Stage, kStages>& stages) {
  for (std::int64_t time = 0; time < chunks + static_cast<std::int64_t>(kStages) - 1; ++time) {
    for (std::size_t stage = 0; stage < kStages; ++stage) {
      const std::int64_t chunk = time - static_cast<std::int64_t>(stage);
      if (chunk >= 0 && chunk < chunks) stages[stage](chunk);
    }
  }
}

/// The state of the chunks in flight, of which there is at most one per stage.
template <typename Slot, std::size_t kStages>
class Slots {
 public:
  Slot& operator[](std::int64_t chunk) { return slots_[static_cast<std::size_t>(chunk) % kStages]; }

 private:
  std::array<Slot, kStages> slots_;
};

/// Divides `length` columns into chunks of `width` columns; the last chunk may be smaller.
struct Chunks {
  std::int64_t length;
  std::int64_t width;

  [[nodiscard]] std::int64_t count() const { return (length + width - 1) / width; }
  [[nodiscard]] std::int64_t begin(std::int64_t chunk) const { return chunk * width; }
  [[nodiscard]] std::int64_t size(std::int64_t chunk) const {
    return std::min(width, length - begin(chunk));
  }
};

inline Chunks in_chunks(std::int64_t length, std::int64_t bytes_a_column,
                        std::int64_t chunk_bytes) {
  return {length, std::max<std::int64_t>(1, chunk_bytes / bytes_a_column)};
}

/// Returns the memory of `tensor` in one dimension, without its autograd and inference state.
inline at::Tensor plain(const at::Tensor& tensor) {
  return at::from_blob(
      tensor.data_ptr(), {tensor.numel()}, [keep = tensor](void*) {},
      at::TensorOptions().dtype(tensor.scalar_type()));
}

}  // namespace accelerate::detail
