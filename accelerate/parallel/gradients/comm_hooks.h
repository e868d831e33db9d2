// Hooks that send gradients in 16 bits; complex gradients travel as they are. Source of the
// behaviour: torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py.
#pragma once

#include <c10/core/ScalarType.h>

#include "accelerate/parallel/gradients/comm_hook.h"

namespace accelerate {

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
