// Makes batches that cost about the same within a step.
#pragma once

#include <cstdint>
#include <vector>

#include "accelerate/data/loader_options.h"

namespace accelerate::detail {

/// What a step consists of.
struct BalancedStep {
  std::int64_t batch_size = 1;    ///< Samples of a batch, on average.
  std::int64_t ranks = 1;         ///< Batches that are trained simultaneously.
  std::int64_t accumulation = 1;  ///< Batches that a rank trains one after another.
  bool drop_last = false;         ///< Whether a last step with too few samples is left out.

  [[nodiscard]] std::int64_t batches() const { return ranks * accumulation; }
  [[nodiscard]] std::int64_t samples() const { return batch_size * batches(); }
};

/// Cuts `order` into steps of `step.samples()` samples. Sorts each step from long to short and cuts
/// it into `step.batches()` batches of about equal cost, so batches of long samples are smaller. A
/// batch costs n * l + 0.001 * n * l * l, where n is the number of its samples and l the length of
/// the longest. The terms stand for the padded tokens and for attention. The costliest batch of a
/// step comes first, and ranks take batches in turn. A last step with fewer samples than batches is
/// filled up with the first samples of `order`.
///
/// Source: `BatchRebalanceSampler` of Transformers. The batches are the same, except perhaps where
/// a step has more than 8 batches and one sample alone costs more than its share. Time: about the
/// square of the samples of a step.
[[nodiscard]] BatchList balanced_batches(const Indices& order,
                                         const std::vector<std::int64_t>& lengths,
                                         const BalancedStep& step);

}  // namespace accelerate::detail
