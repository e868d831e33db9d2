#include "accelerate/data/placement.h"

namespace accelerate::detail {

void move_to_device(at::Tensor& tensor, c10::Device device, bool non_blocking) {
  if (!tensor.defined() || tensor.device() == device) return;
  // "cuda" without a number is the current one; `to` knows which that is.
  const bool waits = !non_blocking && !(device.is_cuda() && tensor.is_cpu() && tensor.is_pinned());
  tensor = tensor.to(device, /*non_blocking=*/!waits);
}

void pin_for_device(at::Tensor& tensor) {
  if (tensor.defined() && tensor.is_cpu()) tensor = tensor.pin_memory();
}

}  // namespace accelerate::detail
