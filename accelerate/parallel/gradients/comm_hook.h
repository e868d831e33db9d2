// How a bucket of gradients becomes the mean over the ranks: the strategy of a GradientReducer.
//
// The default sums in the gradients' own dtype. comm_hooks.h and power_sgd.h have hooks that send
// fewer bytes, and a program may bring its own:
//
//   model.register_comm_hook([](Communicator& group, GradientBucket& bucket) {
//     bucket.buffer.div_(group.size());
//     return group.all_reduce(bucket.buffer, ReduceOp::sum);
//   });
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/comm/followed_by.h"

namespace accelerate {

/// Gradients that travel together.
struct GradientBucket {
  std::size_t index = 0;  ///< The place of the bucket in the fixed order of all buckets.
  bool is_last = false;   ///< The last bucket that travels in a step; skipped buckets do not count.
  at::Tensor buffer;      ///< Shape {numel}: the gradients of this rank one after the other.
  std::vector<at::Tensor> gradients;  ///< Views of `buffer` in the shapes of their parameters.

  /// Returns a bucket of the same layout over `other`: the shape of `buffer`, any dtype.
  [[nodiscard]] GradientBucket in(const at::Tensor& other) const;
};

/// Starts the reduction of `bucket`. Once the returned Work has been waited for, `bucket.buffer` is
/// the mean over the ranks. Buckets come in the order of their index, the same on all ranks, and
/// are waited for in that order. All this happens on the thread of backward or of finish(), so what
/// follows a Work (followed_by) may communicate again. The bucket outlives its Work.
using CommHook = std::function<Work(Communicator& group, GradientBucket& bucket)>;

}  // namespace accelerate
