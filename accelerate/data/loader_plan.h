// Everything about a loader that does not depend on the type of its batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "accelerate/data/batch_sampler_shard.h"
#include "accelerate/data/loader_control.h"
#include "accelerate/data/loader_options.h"

namespace accelerate::detail {

/// Throws ConfigError when an option is out of range or options exclude each other.
void check_options(const DataLoaderOptions& options);

/// The seed of a loader: its own, else the configuration's, else that of the CPU's default
/// generator.
[[nodiscard]] std::uint64_t choose_seed(const DataLoaderOptions& options,
                                        const DataLoaderConfiguration& config);

/// Which samples each batch of each epoch has. A value; copies share the count of epochs, so that a
/// loader and its skipping view go through the epochs together.
class LoaderPlan {
 public:
  /// A loader that is used alone, as one process. Throws as check_options.
  LoaderPlan(std::size_t samples, DataLoaderOptions options);

  /// The same samples and options as one rank of a group, with epochs of its own. Throws
  /// ConfigError as BatchSamplerShard.
  [[nodiscard]] LoaderPlan prepared(const LoaderContext& context) const;

  /// The same loader with the first `batches` of every epoch left out, together with those left out
  /// already.
  [[nodiscard]] LoaderPlan skipping(std::size_t batches) const;

  /// This rank's batches of an epoch. Cost: that of the permutation when shuffled.
  [[nodiscard]] BatchSamplerShard batches(std::int64_t epoch) const;

  /// Number of batches of this rank in the current epoch, less those skipped. Free of cost, except
  /// with a batch sampler, which has to be called.
  [[nodiscard]] std::size_t size() const;

  /// Samples that all ranks consume in a step; 0 when batches differ in size.
  [[nodiscard]] std::int64_t total_batch_size() const;

  /// Samples of the last step that are not repeats; -1 when dropped or when batches differ in size.
  [[nodiscard]] std::int64_t remainder() const;

  [[nodiscard]] std::size_t samples() const { return samples_; }
  [[nodiscard]] std::size_t skipped() const { return skipped_; }
  [[nodiscard]] const DataLoaderOptions& options() const { return options_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }

  [[nodiscard]] std::int64_t epoch() const { return control_->epoch(); }
  void set_epoch(std::int64_t epoch) const { control_->set_epoch(epoch); }
  [[nodiscard]] const std::shared_ptr<LoaderControl>& control() const { return control_; }

 private:
  [[nodiscard]] BatchSampler user_batches(std::int64_t epoch) const;
  [[nodiscard]] BatchSamplerShard uniform_batches(SampleOrder order) const;
  [[nodiscard]] BatchSamplerShard shard(BatchSampler sampler) const;

  std::size_t samples_;
  DataLoaderOptions options_;
  ShardOptions shard_;
  std::uint64_t seed_ = 0;
  std::size_t skipped_ = 0;
  std::shared_ptr<LoaderControl> control_ = std::make_shared<LoaderControl>();
};

}  // namespace accelerate::detail
