// The options of PowerSGD. Its hooks are in power_sgd.h.
#pragma once

#include <cstdint>

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

}  // namespace accelerate
