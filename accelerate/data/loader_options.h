// How a loader cuts a dataset into batches (DataLoaderOptions), how ranks share the batches
// (DataLoaderConfiguration, ShardOptions), and the surroundings of a prepared loader
// (LoaderContext).
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/comm/state/gradient_state.h"

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
  std::int64_t batch_size = 1;  ///< Samples in a batch of one rank; of all with `split_batches`.
  bool shuffle = false;         ///< A new order every epoch, which depends on (seed, epoch) only.
  bool drop_last = false;       ///< Leaves out the last batch when it is not full.
  int num_workers = 0;          ///< Threads that read ahead; 0: the loop itself reads.
  int prefetch_factor = 2;      ///< Batches that each worker may be ahead.
  /// Seed of the order. Default: the configuration's seed, else the CPU generator's (set_seed).
  std::optional<std::uint64_t> data_seed = std::nullopt;
  bool pin_memory = false;  ///< Page-locks batches that are moved to a CUDA device.
  /// Makes the batches of an epoch. Excludes batch_size, shuffle and drop_last.
  std::function<BatchList(std::int64_t epoch)> batch_sampler = nullptr;
};

/// Settings that all loaders of an Accelerator share. Names are upstream's.
struct DataLoaderConfiguration {
  bool split_batches = false;  ///< batch_size counts the samples of all ranks, not of each rank.
  /// Rank 0 alone reads the batches and deals them out. Default: for iterable datasets only.
  std::optional<bool> dispatch_batches = std::nullopt;
  bool even_batches = true;  ///< Repeats first samples so that all ranks get equally many.
  /// Whether the order of an epoch comes from a generator seeded with seed + epoch. If not, one
  /// generator draws all epochs one after the other, as Python's `DataLoader(generator=…)` does;
  /// starting at epoch k then costs k + 1 permutations. Upstream's default is false.
  bool use_seedable_sampler = true;
  std::optional<std::uint64_t> data_seed = std::nullopt;  ///< For loaders without a data_seed.
  bool non_blocking = false;  ///< Moves batches without waiting; pinned batches never wait.
  /// Accepted for compatibility and ignored: every loader has state_dict() and load_state_dict() at
  /// no cost.
  bool use_stateful_dataloader = true;
};

/// Random generators that get rank 0's state on every rank when a pass begins.
enum class RngType {
  torch,      ///< The default generator of the CPU.
  cuda,       ///< The default generator of the rank's GPU; skipped if batches stay on the CPU.
  generator,  ///< The generator of an iterable dataset, if it has one. Orders need none.
};

/// Which part of the batches is this rank's.
struct ShardOptions {
  int num_shards = 1;          ///< Ranks that share the batches.
  int shard_index = 0;         ///< This rank's shard, below num_shards.
  bool split_batches = false;  ///< Takes a part of every batch, not every num_shards-th batch.
  bool even_batches = true;    ///< Repeats the first samples so that all shards are equal.
};

/// The surroundings of a prepared loader. Ranks are those of the data-parallel dimension.
struct LoaderContext {
  int rank = 0;
  int world_size = 1;
  DataLoaderConfiguration config = {};
  /// Told about every iteration; may be null.
  std::shared_ptr<GradientState> gradient_state = nullptr;
  std::optional<c10::Device> device = std::nullopt;  ///< Batches are moved there; none: they stay.
  /// The group of the ranks; needed to dispatch batches and to synchronise generators.
  std::shared_ptr<Communicator> communicator = nullptr;
  std::vector<RngType> rng_types = {RngType::generator};
  /// Moves what workers have read to `device` before use. Null: prepare_data_loader makes one for a
  /// CUDA device.
  std::shared_ptr<detail::DeviceMover> mover = nullptr;
};

}  // namespace accelerate
