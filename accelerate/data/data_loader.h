// Batches of a dataset, for one process or for the ranks of a group.
//
//   auto batches =
//       make_data_loader(dataset, {.batch_size = 64, .shuffle = true, .num_workers = 4});
//   for (auto& batch : batches) { … }            // as a single process
//   auto loader = accelerator.prepare(batches);  // this rank's share, on this rank's device
//
// Loaders are handles: a copy goes through the same epochs over the same dataset. A loader belongs
// to one thread and manages its worker threads. Semantics: docs/data_loading.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/data/dataset_source.h"
#include "accelerate/data/indexed_feed.h"
#include "accelerate/data/loader_iteration.h"
#include "accelerate/data/loader_options.h"
#include "accelerate/data/stream_dataset.h"
#include "accelerate/data/stream_feed.h"
#include "accelerate/tensor/nested.h"

namespace accelerate {
namespace detail {

/// Members that DataLoader and PreparedLoader share.
template <typename BatchType>
class Loader {
 public:
  using Batch = BatchType;

  explicit Loader(LoaderCore<Batch> core) : core_(std::move(core)) {}

  /// Starts a pass over the current epoch and reads its first batch. The epoch is counted when a
  /// pass reaches its end; after an early `break` the same epoch comes again. Passes are
  /// independent of each other, even when they overlap. Throws SampleError when the dataset throws.
  /// Throws UsageError when only one pass at a time can read the dataset, and another pass is
  /// reading it. [collective] where the loader dispatches or rng_types names a generator, else
  /// local.
  [[nodiscard]] LoaderIterator<Batch> begin() const { return LoaderIterator<Batch>(core_); }
  [[nodiscard]] std::default_sentinel_t end() const { return {}; }
  /// Not there: loaders of torch::data are pointers, and these are not.
  template <typename T = void>
  const Loader& operator*() const {
    static_assert(kNoType<T>, "a loader is not a pointer: write `for (auto& batch : loader)`");
    return *this;
  }

  /// The number of batches that a pass over the current epoch gives on this rank. Throws DataError
  /// when the dataset is iterable and has no size.
  [[nodiscard]] std::size_t size() const { return core_.plan.size(); }

  /// The number of batches that the next pass gives on this rank: fewer than size() after
  /// load_state_dict(). Throws as size().
  [[nodiscard]] std::size_t batches_left() const { return core_.plan.batches_left(); }

  /// Samples that all ranks together consume in a step; 0 when a batch sampler decides.
  [[nodiscard]] std::int64_t total_batch_size() const { return core_.plan.total_batch_size(); }

  /// The number of samples of the whole dataset, not of a rank's share. Throws DataError as size().
  [[nodiscard]] std::size_t total_dataset_length() const { return core_.plan.known_samples(); }

  /// The epoch that the next pass goes through, counted from 0. The order of samples is a function
  /// of the seed and this number.
  [[nodiscard]] std::int64_t epoch() const { return core_.plan.epoch(); }
  void set_epoch(std::int64_t epoch) { core_.plan.set_epoch(epoch); }

  /// The seed of the order. It must be equal on all ranks.
  [[nodiscard]] std::uint64_t seed() const { return core_.plan.seed(); }

  /// Returns the loader's position in the data. Within a loop, it is the position after the loop's
  /// current batch. Of several passes under way, the newest counts. Local. Costs nothing.
  [[nodiscard]] LoaderState state_dict() const { return core_.plan.state(); }
  /// Makes the next pass continue after `state`, with the rest of its epoch, which may be empty.
  /// Samples before it are not read, except from an iterable dataset, which cannot seek. The number
  /// of workers may differ. Where total_batch_size() differs, or, with a batch sampler, the number
  /// of ranks, the pass continues behind the samples that were consumed, in steps of this loader.
  /// Throws CheckpointError when the dataset's length differs, and when one loader has a batch
  /// sampler and the other has none.
  void load_state_dict(const LoaderState& state) { core_.plan.load(state); }

  /// Returns the dataset that the loader was made of, e.g. `loader.dataset<Sayings>()`. Throws
  /// UsageError when it is of another type.
  template <typename Dataset>
  [[nodiscard]] Dataset& dataset() const {
    const GivenDataset& given = core_.given;
    if (given.type == nullptr || *given.type != typeid(Dataset)) {
      throw_other_dataset(given.type, typeid(Dataset));
    }
    return *static_cast<Dataset*>(given.object.get());
  }

  [[nodiscard]] const DataLoaderOptions& options() const { return core_.plan.options(); }
  [[nodiscard]] const LoaderCore<Batch>& core() const { return core_; }

 private:
  LoaderCore<Batch> core_;
};

}  // namespace detail

/// A loader as make_data_loader returns it: all batches, on the device where the dataset makes
/// them.
template <typename Batch>
class DataLoader : public detail::Loader<Batch> {
 public:
  using detail::Loader<Batch>::Loader;

  /// Starts a pass as Loader::begin. In a group of several ranks, warns once that each rank reads
  /// all samples.
  [[nodiscard]] detail::LoaderIterator<Batch> begin() const {
    this->core().plan.warn_if_undivided();
    return detail::Loader<Batch>::begin();
  }
};

/// A loader as Accelerator::prepare returns it: this rank's batches on this rank's device. During a
/// pass, the GradientState knows the remainder and whether this is the last batch.
template <typename Batch>
class PreparedLoader : public detail::Loader<Batch> {
 public:
  using detail::Loader<Batch>::Loader;

  /// Whether the next pass repeats samples in its last step, so that all ranks get equally many.
  /// All copies of this loader share the setting. Set it alike on all ranks.
  [[nodiscard]] bool even_batches() const { return control()->even_batches(); }
  void set_even_batches(bool even_batches) { control()->set_even_batches(even_batches); }

  /// Whether rank 0 reads for all ranks.
  [[nodiscard]] bool dispatch_batches() const { return this->core().plan.dispatches(); }
  /// The device of the batches; if none, they stay on the device where the dataset makes them.
  [[nodiscard]] const std::optional<c10::Device>& device() const { return this->core().device; }

  /// State that all copies of this loader share.
  [[nodiscard]] const std::shared_ptr<LoaderControl>& control() const {
    return this->core().plan.control();
  }
};

namespace detail {
template <typename Batch>
DataLoader<Batch> loader_of(std::shared_ptr<BatchSource<Batch>> source, DataLoaderOptions options) {
  LoaderPlan plan({.samples = source->size()}, std::move(options));
  return DataLoader<Batch>({.plan = std::move(plan),
                            .dataset = std::make_shared<IndexedReader<Batch>>(std::move(source))});
}
template <typename Batch>
DataLoader<Batch> loader_of(std::shared_ptr<StreamSource<Batch>> source,
                            DataLoaderOptions options) {
  LoaderPlan plan({.samples = source->size(), .iterable = true}, std::move(options));
  return DataLoader<Batch>({.plan = std::move(plan),
                            .dataset = std::make_shared<StreamReader<Batch>>(std::move(source))});
}

// Returns `loader`, which remembers the dataset that it was made of.
template <typename Batch, typename Dataset>
DataLoader<Batch> remembering(const DataLoader<Batch>& loader, std::shared_ptr<Dataset> dataset) {
  LoaderCore<Batch> core = loader.core();
  core.given = {std::move(dataset), &typeid(Dataset)};
  return DataLoader<Batch>(std::move(core));
}
}  // namespace detail

/// Returns a loader over `dataset`, which is taken by value; pass a shared_ptr to share it instead.
/// accelerate/data/dataset_source.h says what counts as a map-style dataset and which threads call
/// it; accelerate/data/stream_dataset.h says so for iterable datasets. default_collate
/// (accelerate/data/collate.h) makes batches of samples. Batches that a map-style dataset makes
/// itself, e.g. by `.map(torch::data::transforms::Stack<>())`, stay as they are. Throws ConfigError
/// when an option is out of range or does not fit an iterable dataset. Throws DataError when a
/// map-style dataset has no size.
template <typename Dataset>
[[nodiscard]] auto make_data_loader(Dataset dataset, DataLoaderOptions options = {}) {
  using Pointee = detail::Pointee<Dataset>;
  using Type = typename Pointee::Type;
  static_assert(!detail::HasMutableSize<Type>,
                "the dataset's size() must be const: declare `std::size_t size() const`");
  static_assert(
      detail::MapStyle<Type> || detail::IterableStyle<Type> || detail::HasMutableSize<Type>,
      "make_data_loader needs a dataset: get_batch(ArrayRef<size_t>) and size(), or get(index) and "
      "size(), or tensors, or, to be read from its beginning, next() or begin() and end(); a "
      "torch::data loader hides its dataset, so pass the dataset instead");
  auto shared = Pointee::share(std::move(dataset));
  if constexpr (detail::MapStyle<Type>) {
    return detail::remembering(
        detail::loader_of(detail::source_of(shared, Pointee::kOwned), std::move(options)), shared);
  } else if constexpr (detail::IterableStyle<Type>) {
    return detail::remembering(
        detail::loader_of(detail::stream_of(shared, Pointee::kOwned), std::move(options)), shared);
  }
}

/// As above, with a collate function: `collate(std::vector<Sample>) -> Batch`. With a get_batch
/// dataset, its argument is what get_batch returns. The function is copied for every worker thread
/// and every pass.
template <typename Dataset, typename Collate>
[[nodiscard]] auto make_data_loader(Dataset dataset, DataLoaderOptions options, Collate collate) {
  using Pointee = detail::Pointee<Dataset>;
  using Type = typename Pointee::Type;
  static_assert(
      detail::BatchReader<Type> || detail::SampleReader<Type> || detail::IterableStyle<Type>,
      "a collate function needs a dataset that gives samples: get(index) or [index] and size(), "
      "or get_batch(ArrayRef<size_t>) and size(), or next(), or begin() and end()");
  auto shared = Pointee::share(std::move(dataset));
  if constexpr (detail::IterableStyle<Type>) {
    return detail::remembering(
        detail::loader_of(detail::stream_with(shared, Pointee::kOwned, std::move(collate)),
                          std::move(options)),
        shared);
  } else if constexpr (detail::CollatesFor<Collate, Type>) {
    return detail::remembering(
        detail::loader_of(detail::source_with(shared, Pointee::kOwned, std::move(collate)),
                          std::move(options)),
        shared);
  } else {
    static_assert(detail::kNoType<Collate>,
                  "the collate function does not take the dataset's samples: its parameter is a "
                  "std::vector of them, or what get_batch() returns, by value or const reference");
  }
}

/// Returns the share of one rank in `loader`, from the loader's current epoch on. Local: nothing is
/// sent, so all ranks must pass loaders of equal options, seed and dataset. `functions` matter only
/// to loaders that dispatch. Throws ConfigError when split_batches does not divide batch_size by
/// the number of ranks. Throws UsageError when batches are to be dispatched but their type cannot
/// be sent, or `context` has no communicator.
template <typename Batch>
[[nodiscard]] PreparedLoader<Batch> prepare_data_loader(const DataLoader<Batch>& loader,
                                                        const LoaderContext& context,
                                                        DispatchFunctions<Batch> functions = {}) {
  detail::LoaderPlan plan = loader.core().plan.prepared(context);
  if (plan.dispatches() && !detail::Portable<Batch>) detail::throw_not_portable();
  auto mover = context.mover;
  if (!mover && context.device) mover = detail::make_device_mover(*context.device);
  return PreparedLoader<Batch>({.plan = std::move(plan),
                                .dataset = loader.core().dataset,
                                .gradient_state = context.gradient_state,
                                .device = context.device,
                                .non_blocking = context.config.non_blocking,
                                .mover = std::move(mover),
                                .communicator = context.communicator,
                                .rng_types = context.rng_types,
                                .dispatch = std::move(functions),
                                .given = loader.core().given});
}

/// Returns `loader` without the first `count` batches of an epoch. These batches are not read,
/// except from an iterable dataset, which is read from its beginning. To resume in the middle of an
/// epoch, iterate the result once, then `loader`: both count the same epochs.
template <template <typename> typename LoaderType, typename Batch>
[[nodiscard]] LoaderType<Batch> skip_first_batches(const LoaderType<Batch>& loader,
                                                   std::size_t count) {
  auto core = loader.core();
  core.plan = core.plan.skipping(count);
  return LoaderType<Batch>(std::move(core));
}

}  // namespace accelerate
