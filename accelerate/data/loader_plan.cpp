#include "accelerate/data/loader_plan.h"

#include <c10/util/Type.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/tensor/seed.h"

namespace accelerate::detail {
namespace {

constexpr int kMaxWorkers = 1024;
constexpr int kMaxPrefetchFactor = 1 << 16;

void check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  throw ConfigError(std::string(name) + " is " + std::to_string(value) + "; it must be from " +
                    std::to_string(least) + " to " + std::to_string(most) + ".");
}

void check_iterable(const DataLoaderOptions& options) {
  if (options.shuffle) {
    throw ConfigError(
        "shuffle is on, but an iterable dataset gives its samples in an order of its own; shuffle "
        "inside the dataset (its set_epoch(epoch) is called before every pass).");
  }
  if (options.batch_sampler) {
    throw ConfigError(
        "batch_sampler chooses samples by their index, but an iterable dataset has none; leave it "
        "out, or give the dataset get(index) and size().");
  }
}

// Returns what a step of `state` consists of: samples, or batches of a batch sampler.
std::int64_t step_units(const LoaderState& state) {
  return state.total_batch_size == 0 ? state.num_processes : state.total_batch_size;
}

// Keeps sums of such numbers countable.
constexpr std::int64_t kMostCounted = std::numeric_limits<std::int64_t>::max() / 4;

bool has_known_steps(const LoaderState& loader) {
  return loader.total_batch_size > 0 && loader.dataset_length >= 0;
}

// Returns how much of an epoch may come before the first batch: samples, or batches of a batch
// sampler.
std::int64_t most_before(const LoaderState& loader) {
  return has_known_steps(loader) ? loader.dataset_length : kMostCounted;
}

// Returns the number of steps in an epoch, or the largest that can be counted if it is unknown.
std::int64_t most_batches(const LoaderState& loader) {
  if (!has_known_steps(loader)) return kMostCounted / step_units(loader);
  const std::int64_t samples = loader.dataset_length - loader.offset;
  return samples / loader.total_batch_size + (samples % loader.total_batch_size == 0 ? 0 : 1);
}

void check_dataset_length(std::int64_t theirs, std::int64_t ours) {
  if (theirs == ours) return;
  throw CheckpointError("the state is that of a loader whose dataset length is " +
                        std::to_string(theirs) + ", but this one's is " + std::to_string(ours) +
                        "; the rest of an epoch is only defined for the same samples.");
}

// A batch sampler counts batches, whose samples only the sampler knows.
void check_kind_of_steps(const LoaderState& theirs, const LoaderState& ours) {
  if ((theirs.total_batch_size == 0) == (ours.total_batch_size == 0)) return;
  const auto kind = [](const LoaderState& state) {
    return std::string(state.total_batch_size == 0 ? "batches of a batch sampler"
                                                   : "samples of batches of one size");
  };
  throw CheckpointError("the state counts " + kind(theirs) + ", but this loader counts " +
                        kind(ours) + ": the rest of the epoch is not defined. Make the loader as " +
                        "it was, or begin the epoch again by set_epoch().");
}

}  // namespace

void check_options(const DataLoaderOptions& options, bool iterable) {
  if (options.batch_size < 1) {
    throw ConfigError("batch_size is " + std::to_string(options.batch_size) +
                      "; it must be at least 1 sample a batch.");
  }
  check_range("num_workers", options.num_workers, 0, kMaxWorkers);
  check_range("prefetch_factor", options.prefetch_factor, 1, kMaxPrefetchFactor);
  if (iterable) check_iterable(options);
  if (!options.batch_sampler) return;
  if (options.batch_size != 1 || options.shuffle || options.drop_last) {
    throw ConfigError(
        "batch_sampler decides about batch_size, shuffle and drop_last itself; leave those three "
        "out.");
  }
}

std::uint64_t choose_seed(const DataLoaderOptions& options, const DataLoaderConfiguration& config) {
  if (options.data_seed) return *options.data_seed;
  if (config.data_seed) return *config.data_seed;
  return initial_seed();
}

LoaderPlan::LoaderPlan(DatasetShape dataset, DataLoaderOptions options)
    : dataset_(dataset),
      options_(std::move(options)),
      seed_(std::make_shared<std::uint64_t>(choose_seed(options_, {}))),
      orders_(std::make_shared<EpochOrders>(dataset_.samples.value_or(0),
                                            EpochOrders::Kind{.shuffle = options_.shuffle})) {
  check_options(options_, dataset_.iterable);
}

LoaderPlan LoaderPlan::prepared(const LoaderContext& context) const {
  LoaderPlan plan = *this;
  const DataLoaderConfiguration& config = context.config;
  plan.dispatches_ = config.dispatch_batches.value_or(dataset_.iterable) && context.world_size > 1;
  if (plan.dispatches_ && !context.communicator) {
    throw UsageError(
        "batches are to be dispatched (dispatch_batches, or an iterable dataset), but the "
        "LoaderContext has no communicator to send them by.");
  }
  plan.control_ = std::make_shared<LoaderControl>(config.even_batches, plan.dispatches_);
  plan.set_epoch(epoch());
  plan.seed_ = std::make_shared<std::uint64_t>(choose_seed(options_, config));
  plan.orders_ = std::make_shared<EpochOrders>(
      dataset_.samples.value_or(0),
      EpochOrders::Kind{.shuffle = options_.shuffle, .seedable = config.use_seedable_sampler});
  plan.shard_ = {.num_shards = context.world_size,
                 .shard_index = context.rank,
                 .split_batches = config.split_batches};
  // Throws here, and not in the first loop, if options do not fit together.
  static_cast<void>(plan.step_shape());
  return plan;
}

LoaderPlan LoaderPlan::skipping(std::size_t batches) const {
  LoaderPlan plan = *this;
  plan.skipped_ += batches;
  return plan;
}

LoaderPlan LoaderPlan::undivided() const {
  LoaderPlan plan = *this;
  plan.shard_ = {};
  plan.dispatches_ = false;
  return plan;
}

ShardOptions LoaderPlan::shard() const {
  ShardOptions shard = shard_;
  // A single process keeps its last batch as it is: there are no other ranks to match.
  shard.even_batches = (dispatches_ || control_->even_batches()) && shard.num_shards > 1;
  return shard;
}

StepShape LoaderPlan::step_shape() const {
  if (!options_.batch_sampler) {
    return StepShape::of(static_cast<std::size_t>(options_.batch_size), shard_);
  }
  static_cast<void>(BatchSamplerShard(BatchSampler(BatchList{}), shard_));
  return StepShape::of(1, {.num_shards = shard_.num_shards, .shard_index = shard_.shard_index});
}

BatchSamplerShard LoaderPlan::batches(std::int64_t epoch, std::size_t offset) const {
  if (options_.batch_sampler) return {user_batches(epoch, offset), shard()};
  return uniform_batches(orders_->of(seed(), epoch).without_first(offset));
}

std::size_t LoaderPlan::known_samples() const {
  if (dataset_.samples) return *dataset_.samples;
  throw DataError(
      "the dataset has no size, so the number of batches is unknown; give it size(), or count "
      "while iterating.",
      error_name::kNoLength);
}

void LoaderPlan::warn_if_undivided() const {
  const int ranks = process_identity().world_size;
  if (ranks == 1) return;
  const std::string samples =
      dataset_.samples ? std::to_string(*dataset_.samples) + " samples" : "samples";
  get_logger("accelerate.data")
      .warning_once("a loader that was not prepared is iterated: each of the " +
                    std::to_string(ranks) + " ranks that does so reads all " + samples +
                    " of its dataset. Iterate the loader that prepare() returns, which gives every "
                    "rank a share. Ignore this if each rank's dataset holds only its share, or if "
                    "every rank should see all samples");
}

std::size_t LoaderPlan::size() const {
  // The number of batches does not depend on their order, so no permutation is drawn.
  const std::size_t all = options_.batch_sampler
                              ? batches(epoch()).size()
                              : uniform_batches(SampleOrder(known_samples())).size();
  return all - std::min(all, skipped_);
}

std::size_t LoaderPlan::batches_left() const {
  const std::size_t offset = control_->offset();
  const std::size_t all =
      options_.batch_sampler
          ? batches(epoch(), offset).size()
          : uniform_batches(SampleOrder(known_samples()).without_first(offset)).size();
  return all - std::min(all, std::max(skipped_, control_->resumes_at()));
}

std::int64_t LoaderPlan::total_batch_size() const {
  if (options_.batch_sampler) return 0;
  return options_.batch_size * (shard_.split_batches ? 1 : shard_.num_shards);
}

std::function<std::optional<LoaderPlan>()> LoaderPlan::watch() const {
  LoaderPlan still = *this;
  still.seed_.reset();
  still.orders_.reset();
  still.control_.reset();
  return [still = std::move(still), seed = std::weak_ptr(seed_), orders = std::weak_ptr(orders_),
          control = std::weak_ptr(control_)]() -> std::optional<LoaderPlan> {
    LoaderPlan plan = still;
    plan.seed_ = seed.lock();
    plan.orders_ = orders.lock();
    plan.control_ = control.lock();
    if (!plan.control_) return std::nullopt;
    return plan;
  };
}

LoaderState LoaderPlan::state() const {
  const LoaderControl::Place place = control_->place();
  const auto batches = static_cast<std::int64_t>(place.batches);
  LoaderState state{.epoch = place.epoch,
                    .batches = batches,
                    .samples = 0,
                    .seed = seed(),
                    .total_batch_size = total_batch_size(),
                    .num_processes = shard_.num_shards,
                    .offset = static_cast<std::int64_t>(place.offset)};
  if (!options_.batch_sampler) state.samples = state.offset + batches * total_batch_size();
  if (dataset_.samples) {
    state.dataset_length = static_cast<std::int64_t>(*dataset_.samples);
    state.samples = std::min(state.samples, state.dataset_length);
  }
  return state;
}

void LoaderPlan::check(const LoaderState& state) const {
  if (state.epoch < 0 || state.batches < 0 || state.offset < 0) {
    throw CheckpointError("the state of a loader counts " + std::to_string(state.epoch) +
                          " epochs and " + std::to_string(state.batches) + " batches behind " +
                          std::to_string(state.offset) + "; all must be at least 0.");
  }
  if (state.total_batch_size < 0 || state.num_processes < 1) {
    throw CheckpointError("the state of a loader has steps of " +
                          std::to_string(state.total_batch_size) + " samples of " +
                          std::to_string(state.num_processes) +
                          " processes; allowed are 0 samples or more, and 1 process or more.");
  }
  const LoaderState mine = this->state();
  check_dataset_length(state.dataset_length, mine.dataset_length);
  check_kind_of_steps(state, mine);
  if (state.epoch > kMostCounted || state.offset > most_before(state)) {
    throw CheckpointError("the state of a loader says that " + std::to_string(state.offset) +
                          " samples or batches of epoch " + std::to_string(state.epoch) +
                          " came before, but there are at most " +
                          std::to_string(most_before(state)) + ", and " +
                          std::to_string(kMostCounted) + " epochs.");
  }
  if (state.batches > most_batches(state)) {
    throw CheckpointError("the state of a loader says that " + std::to_string(state.batches) +
                          " batches of an epoch have been consumed, but there are at most " +
                          std::to_string(most_batches(state)) + ".");
  }
}

// With a fixed number of samples, steps are the same on any number of ranks.
bool LoaderPlan::has_steps_of(const LoaderState& state) const {
  if (state.total_batch_size != total_batch_size()) return false;
  return total_batch_size() != 0 || state.num_processes == shard_.num_shards;
}

void LoaderPlan::load(const LoaderState& state) const {
  check(state);
  *seed_ = state.seed;
  LoaderControl::Place place{.epoch = state.epoch,
                             .batches = static_cast<std::size_t>(state.batches),
                             .offset = static_cast<std::size_t>(state.offset)};
  if (!has_steps_of(state)) {
    place.offset += place.batches * static_cast<std::size_t>(step_units(state));
    place.offset = std::min(place.offset, static_cast<std::size_t>(most_before(state)));
    place.batches = 0;
  }
  control_->resume(place);
}

BatchSampler LoaderPlan::user_batches(std::int64_t epoch, std::size_t offset) const {
  BatchList batches = options_.batch_sampler(epoch);
  batches.erase(batches.begin(),
                batches.begin() + static_cast<std::ptrdiff_t>(std::min(offset, batches.size())));
  for (const Indices& batch : batches) {
    for (std::size_t index : batch) {
      if (index < known_samples()) continue;
      throw DataError("the batch sampler asks for sample " + std::to_string(index) +
                      ", but the dataset has " + std::to_string(known_samples()) +
                      " samples; indices count from 0.");
    }
  }
  return BatchSampler(std::move(batches));
}

BatchSamplerShard LoaderPlan::uniform_batches(SampleOrder order) const {
  return {BatchSampler(std::move(order), options_.batch_size, options_.drop_last), shard()};
}

void throw_other_dataset(const std::type_info* given, const std::type_info& asked) {
  const std::string found =
      given == nullptr ? "is not known" : "is a " + c10::demangle(given->name());
  throw UsageError("dataset<" + c10::demangle(asked.name()) +
                   ">() was asked of a loader whose dataset " + found +
                   ": name the type that make_data_loader was given");
}

}  // namespace accelerate::detail
