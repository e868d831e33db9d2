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
#include <c10/core/ScalarType.h>
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

// Hooks that send gradients in 16 bits; complex gradients travel as they are. Source of the
// behaviour: torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py.

/// Divides by the number of ranks and sums, in the gradients' own dtype, as happens without a hook.
[[nodiscard]] CommHook all_reduce_hook();

/// Sends gradients as at::kHalf or at::kBFloat16: rounds, divides by the number of ranks, sums, and
/// widens again. Sends half the bytes of float gradients. A gradient beyond the range of fp16
/// (65504) becomes infinite; bf16 keeps the range and 8 bits of precision. Throws ConfigError for
/// other dtypes.
[[nodiscard]] CommHook compress_hook(at::ScalarType dtype);

/// Runs `hook` on gradients rounded to `dtype`, so that what it sends and remembers has 16 bits
/// too. Throws ConfigError as compress_hook does.
[[nodiscard]] CommHook compress_wrapper(at::ScalarType dtype, CommHook hook);

}  // namespace accelerate
