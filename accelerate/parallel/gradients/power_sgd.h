// PowerSGD: sends low-rank factors of gradient matrices. A matrix M of n × m becomes P·Qᵀ with
// `matrix_approximation_rank` columns, so (n + m)·rank numbers travel instead of n·m. What the
// approximation loses is remembered and added to the next step's gradient. Sources: Vogels,
// Karimireddy, Jaggi, "PowerSGD", NeurIPS 2019 (arXiv 1905.13727); names, defaults and the order of
// random numbers from torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py.
#pragma once

#include "accelerate/parallel/gradients/comm_hook.h"
#include "accelerate/parallel/gradients/power_sgd_options.h"

namespace accelerate {

/// Compresses each matrix of a bucket separately. Vectors, and matrices that would not get smaller
/// by `min_compression_rate`, travel as they are. Three all-reduces per bucket. The hook remembers
/// gradients, so it serves one model. Throws ConfigError for options out of range.
[[nodiscard]] CommHook power_sgd_hook(const PowerSGDOptions& options);

/// Compresses a whole bucket as one square matrix: faster, and less exact. Two all-reduces per
/// bucket. Ignores min_compression_rate and batch_tensors_with_same_shape. Throws as
/// power_sgd_hook.
[[nodiscard]] CommHook batched_power_sgd_hook(const PowerSGDOptions& options);

}  // namespace accelerate
