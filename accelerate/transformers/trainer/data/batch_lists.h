// Cuts the samples of one epoch into batches, by number or by length.
#pragma once

#include <cstdint>
#include <vector>

#include "accelerate/data/loader_options.h"

namespace accelerate::detail {

/// Returns a random order in which neighbours have about the same length. Samples are shuffled and
/// cut into stretches of up to 50 batches; each stretch is sorted from long to short. The longest
/// sample comes first, so that a lack of memory shows immediately. `seed`: for LibTorch's
/// generator. Source: `get_length_grouped_indices` of Transformers.
[[nodiscard]] Indices length_grouped(const std::vector<std::int64_t>& lengths,
                                     std::int64_t batch_size, std::uint64_t seed);

/// Cuts `order` into batches of `batch_size`. With `drop_last` a smaller last batch is left out.
[[nodiscard]] BatchList cut_by_count(const Indices& order, std::int64_t batch_size, bool drop_last);

/// Cuts `order` into batches that hold at most `max_tokens` tokens when each sample is padded to
/// the longest of its batch. A sample that is longer than that is a batch alone.
[[nodiscard]] BatchList cut_by_tokens(const Indices& order,
                                      const std::vector<std::int64_t>& lengths,
                                      std::int64_t max_tokens);

/// Returns 0 to `count` - 1: in random order, or ascending.
[[nodiscard]] Indices random_order(std::size_t count, std::uint64_t seed);
[[nodiscard]] Indices given_order(std::size_t count);

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
