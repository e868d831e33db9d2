// PowerSGD: sends low-rank factors of gradient matrices. A matrix M of n × m becomes P·Qᵀ with
// `matrix_approximation_rank` columns, so (n + m)·rank numbers travel instead of n·m; what the
// approximation loses is remembered and added to the next step's gradient. Sources: Vogels,
// Karimireddy, Jaggi, "PowerSGD", NeurIPS 2019 (arXiv 1905.13727); names, defaults and the order of
// random numbers are those of torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py.
#pragma once

#include <cstdint>

#include "accelerate/parallel/gradients/comm_hook.h"

namespace accelerate {

struct PowerSGDOptions {
  /// Columns of P and Q. More send more and lose less; 1 to 4 is usual.
  std::int64_t matrix_approximation_rank = 1;
  /// Steps that reduce without compression first. 0 is allowed: buckets never change here.
  std::int64_t start_powerSGD_iter = 1000;
  /// A matrix is compressed only if that saves more than this factor.
  double min_compression_rate = 2;
  bool use_error_feedback = true;  ///< Remember what was lost: one more copy of the gradients.
  bool warm_start = true;          ///< Start from the last step's Q, not from random numbers.
  double orthogonalization_epsilon = 0;  ///< Added to the norm of a column before it divides.
  std::uint32_t random_seed = 0;         ///< Of the first Qs; must agree on all ranks.
  /// Steps between two lines in the log that say how much was saved.
  std::int64_t compression_stats_logging_frequency = 10'000;
  /// Matrices of one shape in one batched product: fewer, larger kernels for one more copy.
  bool batch_tensors_with_same_shape = false;

  bool operator==(const PowerSGDOptions&) const = default;
};

/// Compresses each matrix of a bucket by itself; vectors, and matrices that would not get smaller
/// by `min_compression_rate`, travel as they are. Three all-reduces a bucket. The hook remembers,
/// so it serves one model. Throws ConfigError for options out of range.
[[nodiscard]] CommHook power_sgd_hook(const PowerSGDOptions& options);

/// Compresses a whole bucket as one square matrix: faster, and less true to the gradients. Two
/// all-reduces a bucket. min_compression_rate and batch_tensors_with_same_shape have no meaning
/// here.
[[nodiscard]] CommHook batched_power_sgd_hook(const PowerSGDOptions& options);

}  // namespace accelerate
