// PowerSGD: sends low-rank factors of gradient matrices. A matrix M of n × m becomes P·Qᵀ with
// `matrix_approximation_rank` columns, so (n + m)·rank numbers travel instead of n·m. What the
// approximation loses is remembered and added to the next step's gradient. Sources: Vogels,
// Karimireddy, Jaggi, "PowerSGD", NeurIPS 2019 (arXiv 1905.13727); names, defaults and the order of
// random numbers from torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py.
#pragma once

#include <cstdint>

#include "accelerate/parallel/gradients/comm_hook.h"

namespace accelerate {

struct PowerSGDOptions {
  /// Columns of P and Q. More columns send more and lose less; 1 to 4 is usual.
  std::int64_t matrix_approximation_rank = 1;
  /// How many steps reduce without compression at first. 0 is allowed: buckets never change here.
  std::int64_t start_powerSGD_iter = 1000;
  /// A matrix is compressed only if that saves more than this factor.
  double min_compression_rate = 2;
  bool use_error_feedback = true;  ///< Remember what was lost: one more copy of the gradients.
  bool warm_start = true;          ///< Start from the last step's Q, not from random numbers.
  double orthogonalization_epsilon = 0;  ///< Added to the norm of a column before it divides.
  std::uint32_t random_seed = 0;         ///< Seed of random Qs; must agree on all ranks.
  /// Steps between two lines in the log about how much was saved.
  std::int64_t compression_stats_logging_frequency = 10'000;
  /// Multiplies matrices of one shape in one batched product: fewer, larger kernels for one more
  /// copy.
  bool batch_tensors_with_same_shape = false;

  bool operator==(const PowerSGDOptions&) const = default;
};

/// Compresses each matrix of a bucket separately. Vectors, and matrices that would not get smaller
/// by `min_compression_rate`, travel as they are. Three all-reduces per bucket. The hook remembers
/// gradients, so it serves one model. Throws ConfigError for options out of range.
[[nodiscard]] CommHook power_sgd_hook(const PowerSGDOptions& options);

/// Compresses a whole bucket as one square matrix: faster, and less exact. Two all-reduces per
/// bucket. Ignores min_compression_rate and batch_tensors_with_same_shape. Throws as
/// power_sgd_hook.
[[nodiscard]] CommHook batched_power_sgd_hook(const PowerSGDOptions& options);

}  // namespace accelerate
