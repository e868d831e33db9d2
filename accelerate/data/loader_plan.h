// Everything about a loader that does not depend on the type of its batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "accelerate/data/batch_sampler_shard.h"
#include "accelerate/data/loader_control.h"
#include "accelerate/data/loader_options.h"

namespace accelerate::detail {

/// What a loader must know of a dataset.
struct DatasetShape {
  std::optional<std::size_t> samples;  ///< None: the dataset does not know.
  bool iterable = false;               ///< Read from its beginning, not by index.
};

/// Throws ConfigError when an option is out of range, or options exclude each other or an iterable
/// dataset.
void check_options(const DataLoaderOptions& options, bool iterable);

/// The seed of a loader: its own, else the configuration's, else that of the CPU's default
/// generator.
[[nodiscard]] std::uint64_t choose_seed(const DataLoaderOptions& options,
                                        const DataLoaderConfiguration& config);

/// Which samples each batch of each epoch has. A value; copies share the LoaderControl, so that a
/// loader and its skipping view go through the epochs together.
class LoaderPlan {
 public:
  /// A loader that is used alone, as one process. Throws as check_options.
  LoaderPlan(DatasetShape dataset, DataLoaderOptions options);

  /// The same samples and options as one rank of a group, with epochs of its own. Throws
  /// ConfigError as BatchSamplerShard.
  [[nodiscard]] LoaderPlan prepared(const LoaderContext& context) const;

  /// The same loader with the first `batches` of every epoch left out, together with those left out
  /// already.
  [[nodiscard]] LoaderPlan skipping(std::size_t batches) const;

  /// What one process would read: for the rank that reads for all.
  [[nodiscard]] LoaderPlan undivided() const;

  /// This rank's batches of an epoch of a map-style dataset. Cost: that of the permutation when
  /// shuffled, unless it is that of the last call.
  [[nodiscard]] BatchSamplerShard batches(std::int64_t epoch) const;

  /// Samples of one rank and of all ranks in a step; batches where a batch sampler decides.
  [[nodiscard]] StepShape step_shape() const;

  /// Which part is ours, with even_batches as it is now.
  [[nodiscard]] ShardOptions shard() const;

  /// Number of batches of this rank in the current epoch, less those skipped. Free of cost, except
  /// with a batch sampler, which has to be called. Throws DataError when the dataset has no size.
  [[nodiscard]] std::size_t size() const;

  /// Samples that all ranks consume in a step; 0 when batches differ in size.
  [[nodiscard]] std::int64_t total_batch_size() const;

  /// Warns, once for each number of samples, when ranks of a group each read what one process
  /// would: to be called where a loader that was not prepared is iterated.
  void warn_if_undivided() const;

  /// Whether rank 0 reads for all. Never so for one process.
  [[nodiscard]] bool dispatches() const { return dispatches_; }
  /// Whether the dataset is read from its beginning, not by index.
  [[nodiscard]] bool iterable() const { return dataset_.iterable; }

  /// Where the loader is in the data.
  [[nodiscard]] LoaderState state() const;
  /// The next pass goes on from there. Throws CheckpointError when `state` is not that of a loader
  /// like this.
  void load(const LoaderState& state) const;
  /// Throws as load(), and changes nothing.
  void check(const LoaderState& state) const;

  [[nodiscard]] const std::optional<std::size_t>& samples() const { return dataset_.samples; }
  /// Throws DataError when the dataset has no size.
  [[nodiscard]] std::size_t known_samples() const;
  [[nodiscard]] std::size_t skipped() const { return skipped_; }
  [[nodiscard]] const DataLoaderOptions& options() const { return options_; }
  [[nodiscard]] std::uint64_t seed() const { return *seed_; }

  [[nodiscard]] std::int64_t epoch() const { return control_->epoch(); }
  void set_epoch(std::int64_t epoch) const { control_->set_epoch(epoch); }
  [[nodiscard]] const std::shared_ptr<LoaderControl>& control() const { return control_; }

  /// Gives the plan for as long as there is a loader that goes by it, afterwards nothing.
  [[nodiscard]] std::function<std::optional<LoaderPlan>()> watch() const;

 private:
  [[nodiscard]] BatchSampler user_batches(std::int64_t epoch) const;
  [[nodiscard]] BatchSamplerShard uniform_batches(SampleOrder order) const;

  DatasetShape dataset_;
  DataLoaderOptions options_;
  ShardOptions shard_;
  bool dispatches_ = false;
  std::size_t skipped_ = 0;
  // Shared by copies, as the seed may be that of a loaded state.
  std::shared_ptr<std::uint64_t> seed_;
  std::shared_ptr<EpochOrders> orders_;
  std::shared_ptr<LoaderControl> control_ = std::make_shared<LoaderControl>();
};

}  // namespace accelerate::detail
