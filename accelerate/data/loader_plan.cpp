#include "accelerate/data/loader_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
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

}  // namespace

void check_options(const DataLoaderOptions& options) {
  if (options.batch_size < 1) {
    throw ConfigError("batch_size is " + std::to_string(options.batch_size) +
                      "; it must be at least 1 sample a batch.");
  }
  check_range("num_workers", options.num_workers, 0, kMaxWorkers);
  check_range("prefetch_factor", options.prefetch_factor, 1, kMaxPrefetchFactor);
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

LoaderPlan::LoaderPlan(std::size_t samples, DataLoaderOptions options)
    : samples_(samples), options_(std::move(options)), seed_(choose_seed(options_, {})) {
  check_options(options_);
}

LoaderPlan LoaderPlan::prepared(const LoaderContext& context) const {
  LoaderPlan plan = *this;
  plan.control_ = std::make_shared<LoaderControl>(context.config.even_batches, false);
  plan.set_epoch(epoch());
  plan.seed_ = choose_seed(options_, context.config);
  plan.shard_ = {.num_shards = context.world_size,
                 .shard_index = context.rank,
                 .split_batches = context.config.split_batches};
  // Refuses here, and not in the first loop, what does not fit together.
  static_cast<void>(options_.batch_sampler ? plan.shard(BatchSampler(BatchList{}))
                                           : plan.uniform_batches(SampleOrder(samples_)));
  return plan;
}

LoaderPlan LoaderPlan::skipping(std::size_t batches) const {
  LoaderPlan plan = *this;
  plan.skipped_ += batches;
  return plan;
}

BatchSamplerShard LoaderPlan::batches(std::int64_t epoch) const {
  if (options_.batch_sampler) return shard(user_batches(epoch));
  if (!options_.shuffle) return uniform_batches(SequentialSampler(samples_).order());
  SeedableRandomSampler sampler(samples_, seed_);
  sampler.set_epoch(epoch);
  return uniform_batches(sampler.order());
}

std::size_t LoaderPlan::size() const {
  // How many there are does not depend on their order, so no permutation is drawn.
  const std::size_t all = options_.batch_sampler ? batches(epoch()).size()
                                                 : uniform_batches(SampleOrder(samples_)).size();
  return all - std::min(all, skipped_);
}

std::int64_t LoaderPlan::total_batch_size() const {
  if (options_.batch_sampler) return 0;
  return options_.batch_size * (shard_.split_batches ? 1 : shard_.num_shards);
}

std::int64_t LoaderPlan::remainder() const {
  if (options_.batch_sampler || options_.drop_last) return -1;
  return static_cast<std::int64_t>(samples_) % total_batch_size();
}

BatchSampler LoaderPlan::user_batches(std::int64_t epoch) const {
  BatchList batches = options_.batch_sampler(epoch);
  for (const Indices& batch : batches) {
    for (std::size_t index : batch) {
      if (index < samples_) continue;
      throw DataError("the batch sampler asks for sample " + std::to_string(index) +
                      ", but the dataset has " + std::to_string(samples_) +
                      " samples; indices count from 0.");
    }
  }
  return BatchSampler(std::move(batches));
}

BatchSamplerShard LoaderPlan::uniform_batches(SampleOrder order) const {
  return shard(BatchSampler(std::move(order), options_.batch_size, options_.drop_last));
}

BatchSamplerShard LoaderPlan::shard(BatchSampler sampler) const {
  ShardOptions options = shard_;
  // One process keeps its last batch as it is: with no other to be equal to, nothing is repeated.
  options.even_batches = control_->even_batches() && options.num_shards > 1;
  return BatchSamplerShard(std::move(sampler), options);
}

}  // namespace accelerate::detail
