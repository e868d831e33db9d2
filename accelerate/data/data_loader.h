// Batches of a dataset, for one process or for the ranks of a group.
//
//   auto batches = make_data_loader(dataset, {.batch_size = 64, .shuffle = true, .num_workers =
//   4}); for (auto& batch : batches) { … }           // alone, as one process auto loader =
//   accelerator.prepare(batches); // this rank's share, on this rank's device
//
// Loaders are handles: a copy goes through the same epochs over the same dataset. A loader belongs
// to one thread; the worker threads behind it are its own affair. docs/data_loading.md has the
// semantics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>

#include "accelerate/data/dataset_source.h"
#include "accelerate/data/loader_iteration.h"
#include "accelerate/data/loader_options.h"

namespace accelerate {
namespace detail {

/// What both kinds of loader can do.
template <typename BatchType>
class Loader {
 public:
  using Batch = BatchType;

  explicit Loader(LoaderCore<Batch> core) : core_(std::move(core)) {}

  /// Starts a pass over the current epoch and reads its first batch. The epoch is counted when a
  /// pass reaches its end; after an early `break` the same epoch comes again. Passes are
  /// independent of one another, also when they overlap. Throws SampleError when the dataset
  /// throws.
  [[nodiscard]] LoaderIterator<Batch> begin() const { return LoaderIterator<Batch>(core_); }
  [[nodiscard]] std::default_sentinel_t end() const { return {}; }

  /// The number of batches that a pass over the current epoch gives on this rank.
  [[nodiscard]] std::size_t size() const { return core_.plan.size(); }

  /// Samples that all ranks together consume in a step; 0 when a batch sampler decides.
  [[nodiscard]] std::int64_t total_batch_size() const { return core_.plan.total_batch_size(); }

  /// The number of samples of the dataset, of all ranks together.
  [[nodiscard]] std::size_t total_dataset_length() const { return core_.plan.samples(); }

  /// The epoch that the next pass goes through, counted from 0. The order of samples is a function
  /// of the seed and this number.
  [[nodiscard]] std::int64_t epoch() const { return core_.plan.epoch(); }
  void set_epoch(std::int64_t epoch) { core_.plan.set_epoch(epoch); }

  /// The seed of the order. Ranks must have the same.
  [[nodiscard]] std::uint64_t seed() const { return core_.plan.seed(); }

  [[nodiscard]] const DataLoaderOptions& options() const { return core_.plan.options(); }
  [[nodiscard]] const LoaderCore<Batch>& core() const { return core_; }

 private:
  LoaderCore<Batch> core_;
};

}  // namespace detail

/// A loader as make_data_loader returns it: all batches, where the dataset makes them.
template <typename Batch>
class DataLoader : public detail::Loader<Batch> {
 public:
  using detail::Loader<Batch>::Loader;
};

/// A loader as Accelerator::prepare returns it: this rank's batches on this rank's device. While it
/// is iterated, the GradientState knows whether this is the last batch, and the remainder.
template <typename Batch>
class PreparedLoader : public detail::Loader<Batch> {
 public:
  using detail::Loader<Batch>::Loader;

  /// Whether the next pass repeats samples in its last step so that all ranks get as many as one
  /// another. Shared by all copies of this loader; set it alike on all ranks.
  [[nodiscard]] bool even_batches() const { return control()->even_batches(); }
  void set_even_batches(bool even_batches) { control()->set_even_batches(even_batches); }

  /// What all copies of this loader share.
  [[nodiscard]] const std::shared_ptr<LoaderControl>& control() const {
    return this->core().plan.control();
  }
};

namespace detail {
template <typename Batch>
DataLoader<Batch> loader_of(std::shared_ptr<BatchSource<Batch>> source, DataLoaderOptions options) {
  LoaderPlan plan(source->size(), std::move(options));
  auto sources = std::make_shared<SourcePool<Batch>>(std::move(source));
  return DataLoader<Batch>({.plan = std::move(plan), .sources = std::move(sources)});
}
}  // namespace detail

/// A loader over `dataset`, which is taken by value; pass a shared_ptr to share it instead. What
/// counts as a dataset, and which threads call it, is said in accelerate/data/dataset_source.h.
/// Samples become batches by default_collate (accelerate/data/collate.h); batches that the dataset
/// makes itself, e.g. by
/// `.map(torch::data::transforms::Stack<>())`, stay as they are.
/// Throws ConfigError when an option is out of range, DataError when the dataset has no size.
template <typename Dataset>
[[nodiscard]] auto make_data_loader(Dataset dataset, DataLoaderOptions options = {}) {
  using Pointee = detail::Pointee<Dataset>;
  static_assert(
      detail::MapStyle<typename Pointee::Type>,
      "make_data_loader needs a map-style dataset: get_batch(ArrayRef<size_t>) and size(), or "
      "get(index) and size(), or tensors; a torch::data loader hides its dataset, so pass the "
      "dataset instead");
  auto source = detail::source_of(Pointee::share(std::move(dataset)), Pointee::kOwned);
  return detail::loader_of(std::move(source), std::move(options));
}

/// As above with a collate function: `collate(std::vector<Sample>) -> Batch`, or from whatever
/// get_batch returns to Batch. It is copied for every worker thread.
template <typename Dataset, typename Collate>
[[nodiscard]] auto make_data_loader(Dataset dataset, DataLoaderOptions options, Collate collate) {
  using Pointee = detail::Pointee<Dataset>;
  static_assert(
      detail::BatchReader<typename Pointee::Type> || detail::SampleReader<typename Pointee::Type>,
      "a collate function needs a dataset that gives samples: get(index) or [index] and size(), "
      "or get_batch(ArrayRef<size_t>) and size()");
  auto source =
      detail::source_with(Pointee::share(std::move(dataset)), Pointee::kOwned, std::move(collate));
  return detail::loader_of(std::move(source), std::move(options));
}

/// The share of one rank in `loader`, from the loader's current epoch on. Local: nothing is sent,
/// so all ranks must pass loaders of equal options, seed and dataset. Throws ConfigError when
/// split_batches does not divide batch_size by the number of ranks.
template <typename Batch>
[[nodiscard]] PreparedLoader<Batch> prepare_data_loader(const DataLoader<Batch>& loader,
                                                        const LoaderContext& context) {
  return PreparedLoader<Batch>({.plan = loader.core().plan.prepared(context),
                                .sources = loader.core().sources,
                                .gradient_state = context.gradient_state,
                                .device = context.device,
                                .non_blocking = context.config.non_blocking});
}

/// `loader` without the first `count` batches of an epoch, which are not even read. To resume in
/// the middle of an epoch iterate the result once, then `loader`: both count the same epochs.
template <template <typename> typename LoaderType, typename Batch>
[[nodiscard]] LoaderType<Batch> skip_first_batches(const LoaderType<Batch>& loader,
                                                   std::size_t count) {
  auto core = loader.core();
  core.plan = core.plan.skipping(count);
  return LoaderType<Batch>(std::move(core));
}

}  // namespace accelerate
