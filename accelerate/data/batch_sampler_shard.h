// The batches of one rank.
//
// One piece of arithmetic covers all of upstream's cases. Ranks take steps together. A step
// consumes `stride` consecutive units, and rank r takes `width` of them, starting at r × width:
//
//   batches of one size        unit = sample   width = batch_size           stride = width × ranks
//   … with split_batches       unit = sample   width = batch_size ÷ ranks   stride = batch_size
//   batches made by the user   unit = batch    width = 1                    stride = ranks
//
// The last step may be incomplete. drop_last leaves it out. even_batches fills it up with the units
// of the first step, as often as needed. Without either, each rank gets what is left for it,
// perhaps nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "accelerate/data/samplers.h"

namespace accelerate {

/// The number of units that one rank (`width`) and all ranks (`stride`) take in a step.
struct StepShape {
  std::size_t width = 1;
  std::size_t stride = 1;

  /// Returns the shape for a batch size. Throws ConfigError when the shard does not exist, when
  /// split_batches cannot divide the batch by num_shards, or when a step has too many samples to
  /// count.
  static StepShape of(std::size_t batch_size, const ShardOptions& options);

  /// Returns how many ranks get anything in a step of `units`.
  [[nodiscard]] int ranks_of(std::size_t units) const {
    return static_cast<int>((units + width - 1) / width);
  }
};

/// The share of one rank in the batches of a BatchSampler. Local: ranks need not communicate, but
/// all must be given the same batches. Immutable and safe to read from any thread. Source:
/// `BatchSamplerShard` of Hugging Face Accelerate. The sequences are the same, also for one shard
/// (even_batches then fills up the last batch).
class BatchSamplerShard {
 public:
  /// Throws ConfigError as StepShape::of, and when split_batches is on but the batches vary in
  /// size.
  BatchSamplerShard(BatchSampler batches, const ShardOptions& options);

  /// The number of batches of this shard, exactly as many as batch() gives. (Upstream's `len`
  /// differs with split_batches on and even_batches off: it counts a last batch for every rank,
  /// even if nothing is left for it.)
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Returns the sample indices of the shard's batch `position`, which must be below size().
  [[nodiscard]] Indices batch(std::size_t position) const;
  /// Writes the same indices into `indices`, whose memory is reused if batches have one size.
  void batch(std::size_t position, Indices& indices) const;

  /// What all ranks together get in a step.
  struct Step {
    std::size_t samples = 0;  ///< Not counting repeats.
    bool repeats = false;     ///< Whether samples are repeated.
    int ranks = 1;            ///< How many ranks have a batch.
    bool ragged = false;      ///< Whether the ranks' batches may differ in size.
  };
  [[nodiscard]] Step step(std::size_t position) const;

  /// Samples left for an incomplete last step; 0 when the last step is complete.
  [[nodiscard]] std::int64_t remainder() const { return remainder_; }

 private:
  [[nodiscard]] std::size_t count_batches() const;
  [[nodiscard]] std::int64_t count_remainder() const;
  [[nodiscard]] std::size_t wrapped(std::size_t unit) const;

  BatchSampler batches_;
  ShardOptions options_;
  std::size_t units_ = 0;  // In the whole epoch.
  StepShape shape_;
  std::size_t size_ = 0;
  std::int64_t remainder_ = 0;
};

}  // namespace accelerate
