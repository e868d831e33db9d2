#include "accelerate/parallel/sharded/gradient_memory.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>

namespace accelerate::detail {

at::Tensor GradientMemory::take_slot(std::size_t bytes) {
  at::Tensor slot = slots_.take(bytes);
  note_peak();
  return slot;
}

at::Tensor GradientMemory::allocate(std::int64_t numel, const at::TensorOptions& options) {
  at::Tensor memory = at::empty({numel}, options);
  allocated_bytes_ += memory.nbytes();
  note_peak();
  return memory;
}

void GradientMemory::release(at::Tensor& memory) {
  if (!memory.defined()) return;
  allocated_bytes_ -= memory.nbytes();
  memory = at::Tensor();
}

void GradientMemory::note_peak() {
  peak_bytes_ = std::max(peak_bytes_, bytes());
}

}  // namespace accelerate::detail
