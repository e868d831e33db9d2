#include "accelerate/parallel/gradients/comm_hook.h"

#include <ATen/core/Tensor.h>

#include <utility>

namespace accelerate {
GradientBucket GradientBucket::in(const at::Tensor& other) const {
  GradientBucket copy{.index = index, .is_last = is_last, .buffer = other, .gradients = {}};
  const auto shift = other.storage_offset() - buffer.storage_offset();
  for (const auto& gradient : gradients) {
    copy.gradients.push_back(
        other.as_strided(gradient.sizes(), gradient.strides(), gradient.storage_offset() + shift));
  }
  return copy;
}

}  // namespace accelerate
