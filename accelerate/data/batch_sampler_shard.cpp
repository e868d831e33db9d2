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

[[noreturn]] void throw_indivisible(std::size_t size, std::size_t shards) {
  throw ConfigError("split_batches divides every batch between the processes, so batch_size (" +
                    std::to_string(size) + ") must be a multiple of their number (" +
                    std::to_string(shards) + "); take " +
                    std::to_string((size / shards + 1) * shards) + ", or leave split_batches off.");
}

std::size_t checked_stride(std::size_t width, std::size_t shards) {
  // Far more than any real step, and far enough below the limit of size_t for the arithmetic below.
  constexpr std::size_t kMaxStride = std::size_t{1} << 62;
  std::size_t stride = 0;
  if (!__builtin_mul_overflow(width, shards, &stride) && stride <= kMaxStride) return stride;
  throw ConfigError("batch_size " + std::to_string(width) + " on " + std::to_string(shards) +
                    " processes is more samples a step than can be counted; take a smaller one.");
}

StepShape shape_of(const BatchSampler& batches, const ShardOptions& options) {
  if (batches.batch_size()) return StepShape::of(*batches.batch_size(), options);
  if (!options.split_batches) return StepShape::of(1, options);
  throw ConfigError(
      "split_batches needs batches of one size, but the batch sampler makes batches of its own; "
      "leave split_batches off, so that each of the " +
      std::to_string(options.num_shards) + " processes gets whole batches.");
}

}  // namespace

StepShape StepShape::of(std::size_t batch_size, const ShardOptions& options) {
  check_shard(options);
  const auto shards = static_cast<std::size_t>(options.num_shards);
  if (options.split_batches && batch_size % shards != 0) throw_indivisible(batch_size, shards);
  const std::size_t width = options.split_batches ? batch_size / shards : batch_size;
  return {.width = width, .stride = checked_stride(width, shards)};
}

BatchSamplerShard::BatchSamplerShard(BatchSampler batches, const ShardOptions& options)
    : batches_(std::move(batches)),
      options_(options),
      units_(batches_.batch_size() ? batches_.order().size() : batches_.size()),
      shape_(shape_of(batches_, options_)),
      size_(count_batches()),
      remainder_(count_remainder()) {}

std::size_t BatchSamplerShard::count_batches() const {
  const std::size_t steps = units_ / shape_.stride;
  const std::size_t left = units_ % shape_.stride;
  if (left == 0 || batches_.drop_last()) return steps;
  const bool any_for_us = left > shape_.width * static_cast<std::size_t>(options_.shard_index);
  return steps + (options_.even_batches || any_for_us ? 1 : 0);
}

std::int64_t BatchSamplerShard::count_remainder() const {
  const std::size_t left = units_ % shape_.stride;
  if (batches_.batch_size()) return static_cast<std::int64_t>(left);
  std::int64_t samples = 0;
  for (std::size_t unit = units_ - left; unit < units_; ++unit) {
    samples += static_cast<std::int64_t>(batches_.samples_in(unit));
  }
  return samples;
}

// Maps a unit past the end to a unit of the first step.
std::size_t BatchSamplerShard::wrapped(std::size_t unit) const {
  return unit < units_ ? unit : (unit - units_) % std::min(units_, shape_.stride);
}

Indices BatchSamplerShard::batch(std::size_t position) const {
  Indices indices;
  batch(position, indices);
  return indices;
}

void BatchSamplerShard::batch(std::size_t position, Indices& indices) const {
  const auto shard = static_cast<std::size_t>(options_.shard_index);
  const std::size_t begin = position * shape_.stride + shape_.width * shard;
  if (!batches_.batch_size()) {
    indices = batches_.batch(wrapped(begin));
    return;
  }
  const std::size_t end = begin + shape_.width;
  const std::size_t present = std::clamp(units_, begin, end);
  const std::size_t count = (options_.even_batches ? end : present) - begin;
  indices.resize(count);
  for (std::size_t i = 0; i < present - begin; ++i) indices[i] = batches_.order()[begin + i];
  for (std::size_t i = present - begin; i < count; ++i) {
    indices[i] = batches_.order()[wrapped(begin + i)];
  }
}

BatchSamplerShard::Step BatchSamplerShard::step(std::size_t position) const {
  const std::size_t begin = position * shape_.stride;
  const std::size_t units = std::min(shape_.stride, units_ - begin);
  const int ranks = options_.even_batches ? options_.num_shards : shape_.ranks_of(units);
  const bool repeats = options_.even_batches && units < shape_.stride;
  if (batches_.batch_size()) {
    return {units, repeats, ranks, !options_.even_batches && units < shape_.stride};
  }
  Step step{0, repeats, ranks, false};
  for (std::size_t unit = begin; unit < begin + static_cast<std::size_t>(ranks); ++unit) {
    const std::size_t size = batches_.samples_in(wrapped(unit));
    if (unit < units_) step.samples += size;
    step.ragged |= size != batches_.samples_in(begin);
  }
  return step;
}

}  // namespace accelerate
