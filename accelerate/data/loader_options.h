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

class Communicator;
namespace detail {
class DeviceMover;
}

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

/// What all loaders of an Accelerator have in common. Names are upstream's.
struct DataLoaderConfiguration {
  bool split_batches = false;  ///< batch_size counts the samples of all ranks, not of each.
  /// Rank 0 alone reads and deals the batches out; by default for iterable datasets only.
  std::optional<bool> dispatch_batches = std::nullopt;
  bool even_batches =
      true;  ///< Repeats first samples so that all ranks get as many as one another.
  /// Whether the order of an epoch comes from a generator seeded with seed + epoch. Without, one
  /// generator draws all epochs one after the other, as Python's `DataLoader(generator=…)` does;
  /// to start at epoch k then costs k + 1 permutations. Upstream's default is false.
  bool use_seedable_sampler = true;
  std::optional<std::uint64_t> data_seed = std::nullopt;  ///< For loaders without one of their own.
  bool non_blocking = false;  ///< Moves batches without waiting (pinned ones always are).
  /// Accepted for the name's sake: every loader has state_dict() and load_state_dict(), at no cost.
  bool use_stateful_dataloader = true;
};

/// Random generators whose state rank 0 hands to the other ranks when a pass begins.
enum class RngType {
  torch,      ///< The default generator of the CPU.
  cuda,       ///< That of the rank's GPU; nothing happens where batches stay on the CPU.
  generator,  ///< The dataset's own, where an iterable dataset has one. Orders need none.
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
  /// The ranks; needed to dispatch batches and to synchronise generators.
  std::shared_ptr<Communicator> communicator = nullptr;
  std::vector<RngType> rng_types = {RngType::generator};
  /// Moves what workers have read to `device` ahead of use; null: chosen by the device.
  std::shared_ptr<detail::DeviceMover> mover = nullptr;
};

}  // namespace accelerate
