// Batches of which each costs about as much as the others of its step.
#pragma once

#include <cstdint>
#include <vector>

#include "accelerate/data/loader_options.h"

namespace accelerate::detail {

/// What a step consists of.
struct BalancedStep {
  std::int64_t batch_size = 1;    ///< Samples of a batch, on average.
  std::int64_t ranks = 1;         ///< Batches that are trained at once.
  std::int64_t accumulation = 1;  ///< Batches that a rank trains one after the other.
  bool drop_last = false;         ///< Whether samples that are too few for a step are left out.

  [[nodiscard]] std::int64_t batches() const { return ranks * accumulation; }
  [[nodiscard]] std::int64_t samples() const { return batch_size * batches(); }
};

/// `order` cut into steps of `step.samples()`, each step sorted from long to short and cut into
/// `step.batches()` batches of about equal cost: batches of long samples are smaller. A batch of n
/// samples of which the longest has l tokens costs n * l + 0.001 * n * l * l: padding, and
/// attention. Batches come in the order in which ranks take them in turn, the costliest first. A
/// last step with fewer samples than batches is filled up with the first samples of `order`. The
/// same batches as `BatchRebalanceSampler` of Transformers, to which this belongs; only where a
/// step has more than 8 batches and one sample alone costs more than its share may they differ.
/// Time: about the square of the samples of a step.
[[nodiscard]] BatchList balanced_batches(const Indices& order,
                                         const std::vector<std::int64_t>& lengths,
                                         const BalancedStep& step);

}  // namespace accelerate::detail
