// Everything about a loader that does not depend on the type of its batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <typeinfo>

#include "accelerate/data/batch_sampler_shard.h"
#include "accelerate/data/loader_control.h"
#include "accelerate/data/loader_options.h"

namespace accelerate::detail {

/// What a loader must know about a dataset.
struct DatasetShape {
  std::optional<std::size_t> samples;  ///< None: unknown.
  bool iterable = false;               ///< Read from its beginning, not by index.
};

/// Throws ConfigError when an option is out of range, when options exclude each other, or when an
/// option does not fit an iterable dataset.
void check_options(const DataLoaderOptions& options, bool iterable);

/// Returns the seed of a loader: its own, else the configuration's, else the seed of the CPU's
/// default generator.
[[nodiscard]] std::uint64_t choose_seed(const DataLoaderOptions& options,
                                        const DataLoaderConfiguration& config);

/// The dataset that make_data_loader was given, of whatever type.
struct GivenDataset {
  std::shared_ptr<void> object = nullptr;
  const std::type_info* type = nullptr;
};

/// Throws the UsageError that names both types; `given` is null if none is known.
[[noreturn]] void throw_other_dataset(const std::type_info* given, const std::type_info& asked);

/// Decides which samples each batch of each epoch has. A value type. Copies share the
/// LoaderControl, so a loader and its skip_first_batches view go through the epochs together.
class LoaderPlan {
 public:
  /// Makes the plan of a loader that a single process uses. Throws as check_options.
  LoaderPlan(DatasetShape dataset, DataLoaderOptions options);

  /// Returns the plan for one rank of a group, with a LoaderControl of its own. Throws ConfigError
  /// as BatchSamplerShard. Throws UsageError when it dispatches but `context` has no communicator.
  [[nodiscard]] LoaderPlan prepared(const LoaderContext& context) const;

  /// Returns a plan that also leaves out the first `batches` of every epoch, after those it already
  /// leaves out.
  [[nodiscard]] LoaderPlan skipping(std::size_t batches) const;

  /// Returns the plan of a single process, for rank 0 when it reads for all ranks.
  [[nodiscard]] LoaderPlan undivided() const;

  /// Returns this rank's batches of an epoch of a map-style dataset, behind its first `offset`
  /// samples, or behind its first `offset` batches with a batch sampler. Cost: drawing the
  /// permutation when shuffled, unless the last call asked for the same seed and epoch.
  [[nodiscard]] BatchSamplerShard batches(std::int64_t epoch, std::size_t offset = 0) const;

  /// Returns the samples of one rank and of all ranks in a step. With a batch sampler, counts
  /// batches.
  [[nodiscard]] StepShape step_shape() const;

  /// Returns which part is this rank's, with the current even_batches.
  [[nodiscard]] ShardOptions shard() const;

  /// Returns the number of this rank's batches in the current epoch, without the skipped ones.
  /// Costs nothing, except with a batch sampler, which has to be called. Throws DataError when the
  /// dataset has no size.
  [[nodiscard]] std::size_t size() const;

  /// Returns the number of this rank's batches that the next pass gives. Costs and throws as
  /// size().
  [[nodiscard]] std::size_t batches_left() const;

  /// Samples that all ranks together consume in a step; 0 with a batch sampler.
  [[nodiscard]] std::int64_t total_batch_size() const;

  /// Warns when each rank of a group reads all samples, once for each number of samples. Called
  /// when a loader that was not prepared is iterated.
  void warn_if_undivided() const;

  /// Whether rank 0 reads for all ranks; always false for one process.
  [[nodiscard]] bool dispatches() const { return dispatches_; }
  /// Whether the dataset is read from its beginning, not by index.
  [[nodiscard]] bool iterable() const { return dataset_.iterable; }

  /// Returns the loader's position in the data.
  [[nodiscard]] LoaderState state() const;
  /// Makes the next pass continue from `state`. Where its steps were of another size, the pass continues
  /// behind the samples that they consumed. Throws CheckpointError when `state` does not fit this
  /// loader.
  void load(const LoaderState& state) const;
  /// Throws as load(), without changing anything.
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

  /// Returns a function that gives the plan while a loader still uses it, and nullopt afterwards.
  [[nodiscard]] std::function<std::optional<LoaderPlan>()> watch() const;

 private:
  [[nodiscard]] BatchSampler user_batches(std::int64_t epoch, std::size_t offset) const;
  [[nodiscard]] bool has_steps_of(const LoaderState& state) const;
  [[nodiscard]] BatchSamplerShard uniform_batches(SampleOrder order) const;

  DatasetShape dataset_;
  DataLoaderOptions options_;
  ShardOptions shard_;
  bool dispatches_ = false;
  std::size_t skipped_ = 0;
  // Shared by copies, because load() replaces the seed.
  std::shared_ptr<std::uint64_t> seed_;
  std::shared_ptr<EpochOrders> orders_;
  std::shared_ptr<LoaderControl> control_ = std::make_shared<LoaderControl>();
};

}  // namespace accelerate::detail
