// How a loader cuts a dataset into batches (DataLoaderOptions), how the batches are shared between
// ranks (DataLoaderConfiguration, ShardOptions), and where a prepared loader lives (LoaderContext).
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/state/gradient_state.h"

namespace accelerate {

/// Positions of samples in a dataset.
using Indices = std::vector<std::size_t>;

/// The batches of one epoch, chosen by the user; they may differ in size.
using BatchList = std::vector<Indices>;

struct DataLoaderOptions {
  std::int64_t batch_size = 1;  ///< Samples a batch; of each rank, or of all with `split_batches`.
  bool shuffle = false;         ///< A new order every epoch, a function of (seed, epoch) alone.
  bool drop_last = false;       ///< Leaves out the last batch when it is not full.
  int num_workers = 0;          ///< Threads that read ahead; 0 reads in the loop itself.
  int prefetch_factor = 2;      ///< Batches that each worker may be ahead.
  /// Seed of the order; by default that of the configuration, else the CPU generator's (set_seed).
  std::optional<std::uint64_t> data_seed = std::nullopt;
  bool pin_memory = false;  ///< Page-locked batches, when they are moved to a CUDA device.
  /// Makes the batches of an epoch; excludes batch_size, shuffle and drop_last.
  std::function<BatchList(std::int64_t epoch)> batch_sampler = nullptr;
};

/// What all loaders of an Accelerator have in common.
struct DataLoaderConfiguration {
  bool split_batches = false;  ///< batch_size counts the samples of all ranks, not of each.
  bool even_batches =
      true;  ///< Repeats first samples so that all ranks get as many as one another.
  std::optional<std::uint64_t> data_seed = std::nullopt;  ///< For loaders without one of their own.
  bool non_blocking = false;  ///< Moves batches without waiting (pinned ones always are).
};

/// Which part of the batches is ours.
struct ShardOptions {
  int num_shards = 1;          ///< Ranks that share the batches.
  int shard_index = 0;         ///< Ours, below num_shards.
  bool split_batches = false;  ///< A part of every batch instead of every num_shards-th batch.
  bool even_batches = true;    ///< Loops back to the first samples so that all shards are equal.
};

/// Where a prepared loader lives. Ranks are those of the data-parallel dimension.
struct LoaderContext {
  int rank = 0;
  int world_size = 1;
  DataLoaderConfiguration config = {};
  std::shared_ptr<GradientState> gradient_state =
      nullptr;                                       ///< Told of every iteration; may be null.
  std::optional<c10::Device> device = std::nullopt;  ///< Batches are moved there; none: they stay.
};

}  // namespace accelerate
