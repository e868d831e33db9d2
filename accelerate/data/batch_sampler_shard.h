// The batches of one rank.
//
// All of upstream's cases are one piece of arithmetic. Ranks take steps together; a step consumes
// `stride` consecutive units and rank r takes `width` of them, starting at r × width:
//
//   batches of one size        unit = sample   width = batch_size           stride = width × ranks
//   … with split_batches       unit = sample   width = batch_size ÷ ranks   stride = batch_size
//   batches made by the user   unit = batch    width = 1                    stride = ranks
//
// The last step may be incomplete. drop_last leaves it out; even_batches fills it up with the units
// of the first step, as often as needed; otherwise each rank gets what is left for it, perhaps
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "accelerate/data/samplers.h"

namespace accelerate {

/// Units of one rank, and of all ranks, in a step.
struct StepShape {
  std::size_t width = 1;
  std::size_t stride = 1;

  /// Of a batch size. Throws ConfigError when the shard does not exist, when split_batches cannot
  /// divide the batch by num_shards, or when a step would be too many samples to count.
  static StepShape of(std::size_t batch_size, const ShardOptions& options);

  /// Ranks that find anything in a step of `units`.
  [[nodiscard]] int ranks_of(std::size_t units) const {
    return static_cast<int>((units + width - 1) / width);
  }
};

/// The share of one rank in the batches of a BatchSampler. Local: ranks need not speak to each
/// other, only be given the same batches. Immutable and safe to read from any thread. Source:
/// `BatchSamplerShard` of Hugging Face Accelerate, whose sequences these are, for one shard too
/// (even_batches then fills up the last batch).
class BatchSamplerShard {
 public:
  /// Throws ConfigError as StepShape::of, and when split_batches is asked for batches of varying
  /// size.
  BatchSamplerShard(BatchSampler batches, const ShardOptions& options);

  /// The number of batches of this shard: exactly those that batch() gives. (Upstream's `len`
  /// counts a last batch for every rank when split_batches is on and even_batches off, even if
  /// nothing is left for it.)
  [[nodiscard]] std::size_t size() const { return size_; }

  /// The sample indices of the shard's batch `position`, which must be below size().
  [[nodiscard]] Indices batch(std::size_t position) const;
  /// The same into `indices`, whose memory is used again.
  void batch(std::size_t position, Indices& indices) const;

  /// What all ranks together find in a step.
  struct Step {
    std::size_t samples = 0;  ///< Those that are not repeats.
    bool repeats = false;     ///< Whether there are repeats.
    int ranks = 1;            ///< How many ranks have a batch.
    bool ragged = false;      ///< Whether their batches may differ in size.
  };
  [[nodiscard]] Step step(std::size_t position) const;

  /// Samples that are left for an incomplete last step; 0 when it is complete.
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
