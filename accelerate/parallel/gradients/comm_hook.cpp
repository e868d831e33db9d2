#include "accelerate/parallel/gradients/comm_hook.h"

#include <ATen/core/Tensor.h>
#include <memory>
#include <string>
#include <utility>

#include "accelerate/base/error.h"

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

namespace {

void require_sixteen_bits(at::ScalarType dtype) {
  if (dtype == at::kHalf || dtype == at::kBFloat16) return;
  throw ConfigError("gradients were to be sent as " + std::string(c10::toString(dtype)) +
                    "; compression knows Half (fp16) and BFloat16 (bf16)");
}

}  // namespace

CommHook all_reduce_hook() {
  return [](Communicator& group, GradientBucket& bucket) {
    bucket.buffer.div_(group.size());
    return group.all_reduce(bucket.buffer, ReduceOp::sum);
  };
}

CommHook compress_hook(at::ScalarType dtype) {
  require_sixteen_bits(dtype);
  return [dtype, plain = all_reduce_hook()](Communicator& group, GradientBucket& bucket) {
    if (bucket.buffer.is_complex()) return plain(group, bucket);
    const auto sent = bucket.buffer.to(dtype, /*non_blocking=*/false, /*copy=*/true);
    sent.div_(group.size());
    return followed_by(group.all_reduce(sent, ReduceOp::sum),
                       [sent, &bucket] { bucket.buffer.copy_(sent); });
  };
}

CommHook compress_wrapper(at::ScalarType dtype, CommHook hook) {
  require_sixteen_bits(dtype);
  return [dtype, hook = std::move(hook)](Communicator& group, GradientBucket& bucket) {
    if (bucket.buffer.is_complex()) return hook(group, bucket);
    const auto narrow = std::make_shared<GradientBucket>(
        bucket.in(bucket.buffer.to(dtype, /*non_blocking=*/false, /*copy=*/true)));
    return followed_by(hook(group, *narrow),
                       [narrow, &bucket] { bucket.buffer.copy_(narrow->buffer); });
  };
}

}  // namespace accelerate
