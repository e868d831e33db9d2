// The batches of one rank.
//
// All of upstream's cases are one piece of arithmetic. Ranks take steps together; a step consumes
// `stride` consecutive units and rank r takes `width` of them, starting at r × width:
//
//   batches of one size          unit = sample   width = batch_size               stride = width ×
//   ranks … with split_batches         unit = sample   width = batch_size ÷ ranks       stride =
//   batch_size batches made by the user     unit = batch    width = 1                        stride
//   = ranks
//
// The last step may be incomplete. drop_last leaves it out; even_batches fills it up with the units
// of the first step, as often as needed; otherwise each rank gets what is left for it, perhaps
// nothing.
#pragma once

#include <cstddef>

#include "accelerate/data/samplers.h"

namespace accelerate {

/// The share of one rank in the batches of a BatchSampler. Local: ranks need not speak to each
/// other, only be given the same batches. Immutable and safe to read from any thread. Source:
/// `BatchSamplerShard` of Hugging Face Accelerate, whose sequences these are, for one shard too
/// (even_batches then fills up the last batch).
class BatchSamplerShard {
 public:
  /// Throws ConfigError when the shard does not exist, or when split_batches is asked for batches
  /// of varying size or of a size that num_shards does not divide.
  BatchSamplerShard(BatchSampler batches, const ShardOptions& options);

  /// The number of batches of this shard: exactly those that batch() gives. (Upstream's `len`
  /// counts a last batch for every rank when split_batches is on and even_batches off, even if
  /// nothing is left for it.)
  [[nodiscard]] std::size_t size() const { return size_; }

  /// The sample indices of the shard's batch `position`, which must be below size().
  [[nodiscard]] Indices batch(std::size_t position) const;

 private:
  [[nodiscard]] std::size_t count_batches() const;

  BatchSampler batches_;
  ShardOptions options_;
  std::size_t units_ = 0;   // In the whole epoch.
  std::size_t width_ = 1;   // Units of one rank in a step.
  std::size_t stride_ = 1;  // Units of all ranks in a step.
  std::size_t size_ = 0;
};

}  // namespace accelerate
