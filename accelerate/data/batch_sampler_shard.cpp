#include "accelerate/data/batch_sampler_shard.h"

#include <algorithm>
#include <string>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

void check_shard(const ShardOptions& options) {
  if (options.num_shards >= 1 && options.shard_index >= 0 &&
      options.shard_index < options.num_shards) {
    return;
  }
  throw ConfigError("shard " + std::to_string(options.shard_index) + " of " +
                    std::to_string(options.num_shards) +
                    " does not exist; there must be at least 1 shard, and shards count from 0.");
}

std::size_t split_width(const BatchSampler& batches, std::size_t shards) {
  if (!batches.batch_size()) {
    throw ConfigError(
        "split_batches needs batches of one size, but the batch sampler makes batches of its own; "
        "leave split_batches off, so that each of the " +
        std::to_string(shards) + " processes gets whole batches.");
  }
  const std::size_t size = *batches.batch_size();
  if (size % shards == 0) return size / shards;
  throw ConfigError("split_batches divides every batch between the processes, so batch_size (" +
                    std::to_string(size) + ") must be a multiple of their number (" +
                    std::to_string(shards) + "); take " +
                    std::to_string((size / shards + 1) * shards) + ", or leave split_batches off.");
}

std::size_t checked_stride(std::size_t width, std::size_t shards) {
  // Far from any real step, and far enough from the limits of size_t for the arithmetic below.
  constexpr std::size_t kMaxStride = std::size_t{1} << 62;
  std::size_t stride = 0;
  if (!__builtin_mul_overflow(width, shards, &stride) && stride <= kMaxStride) return stride;
  throw ConfigError("batch_size " + std::to_string(width) + " on " + std::to_string(shards) +
                    " processes is more samples a step than can be counted; take a smaller one.");
}

}  // namespace

BatchSamplerShard::BatchSamplerShard(BatchSampler batches, const ShardOptions& options)
    : batches_(std::move(batches)), options_(options) {
  check_shard(options_);
  const auto shards = static_cast<std::size_t>(options_.num_shards);
  if (options_.split_batches) {
    width_ = split_width(batches_, shards);
  } else {
    width_ = batches_.batch_size().value_or(1);
  }
  units_ = batches_.batch_size() ? batches_.order().size() : batches_.size();
  stride_ = checked_stride(width_, shards);
  size_ = count_batches();
}

std::size_t BatchSamplerShard::count_batches() const {
  const std::size_t steps = units_ / stride_;
  const std::size_t left = units_ % stride_;
  if (left == 0 || batches_.drop_last()) return steps;
  const bool any_for_us = left > width_ * static_cast<std::size_t>(options_.shard_index);
  return steps + (options_.even_batches || any_for_us ? 1 : 0);
}

Indices BatchSamplerShard::batch(std::size_t position) const {
  const std::size_t begin =
      position * stride_ + width_ * static_cast<std::size_t>(options_.shard_index);
  const std::size_t first_step = std::min(units_, stride_);
  // A unit past the end is one of the first step again.
  auto wrapped = [&](std::size_t unit) {
    return unit < units_ ? unit : (unit - units_) % first_step;
  };
  if (!batches_.batch_size()) return batches_.batch(wrapped(begin));
  const std::size_t end = options_.even_batches ? begin + width_ : std::min(begin + width_, units_);
  Indices indices;
  indices.reserve(end - begin);
  for (std::size_t unit = begin; unit < end; ++unit) {
    indices.push_back(batches_.order()[wrapped(unit)]);
  }
  return indices;
}

}  // namespace accelerate
