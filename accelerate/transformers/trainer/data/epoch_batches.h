// The batches of epochs that are cut by length, and of an epoch that goes on with other batches than
// it began with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/data/loader_options.h"

namespace accelerate::detail {

/// How the samples of an epoch become batches.
struct EpochCut {
  std::string strategy = "random";  ///< The train_sampling_strategy.
  std::int64_t batch_size = 1;      ///< Samples of a batch of one rank; on average where they vary.
  std::int64_t ranks = 1;           ///< Ranks that share the batches.
  std::int64_t accumulation = 1;    ///< Batches of a rank in a step.
  std::int64_t max_tokens = 0;      ///< max_tokens_per_batch; 0: not set.
  bool drop_last = false;
  bool split_batches = false;      ///< Whether batch_size counts the samples of all ranks.
  std::int64_t order_samples = 0;  ///< Samples of a step when the epoch began; see samples_grouped.
  std::int64_t offset = 0;  ///< Samples of the epoch's order that come before the first batch.

  /// Whether batches are the same, apart from where the first one begins.
  [[nodiscard]] bool cuts_like(const EpochCut& other) const;
  /// The samples of a step on all ranks.
  [[nodiscard]] std::int64_t samples() const {
    return batch_size * accumulation * (split_batches ? 1 : ranks);
  }
};

/// Makes the batches of a loader's epochs from the lengths of the rows.
class EpochBatches {
 public:
  EpochBatches(std::vector<std::int64_t> lengths, EpochCut cut, std::uint64_t seed)
      : lengths_(std::move(lengths)), cut_(std::move(cut)), seed_(seed) {}

  /// Returns the batches of an epoch, for all ranks.
  [[nodiscard]] BatchList of(std::int64_t epoch) const;
  /// Returns the number of batches of a whole epoch, for all ranks.
  [[nodiscard]] std::int64_t count(std::int64_t epoch) const;
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  /// Returns how `epoch` is cut behind its first `batches`, which were cut as `then`.
  [[nodiscard]] EpochCut rest(std::int64_t epoch, const EpochCut& then, std::size_t batches) const;
  /// Cuts `epoch` as `cut`, and the other epochs as before. `seed` counts for all epochs.
  void go_on(std::int64_t epoch, const EpochCut& cut, std::uint64_t seed);

 private:
  [[nodiscard]] BatchList cut_up(std::int64_t epoch, const EpochCut& cut) const;
  [[nodiscard]] Indices order_of(std::int64_t epoch, const EpochCut& cut) const;

  std::vector<std::int64_t> lengths_;
  EpochCut cut_;
  std::uint64_t seed_;
  std::optional<std::int64_t> other_epoch_;  // The epoch that is cut as other_cut_.
  EpochCut other_cut_;
};

}  // namespace accelerate::detail
