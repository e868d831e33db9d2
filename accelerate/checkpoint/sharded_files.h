// A save in shards: of what all ranks have alike each rank writes its share, and loading it takes
// together what any number of ranks wrote. The files are those of docs/formats/sharded.md.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/planned_files.h"
#include "accelerate/comm/communicator.h"
#include "accelerate/formats/manifest.h"
#include "accelerate/formats/shards/shard_catalogue.h"
#include "accelerate/formats/shards/tensor_tiles.h"

namespace accelerate {

/// The files in which rank `rank` writes its `shards` of the tensors of `stem` ("model"): one, none
/// without shards, or as many as it has of one tensor. Copies nothing. Throws UsageError for a
/// shard whose tensor has not the shape of its tile, or that leaves the whole.
[[nodiscard]] std::vector<PlannedFile> plan_shards(const std::string& stem, int rank,
                                                   const std::vector<LocalShard>& shards);

/// Turns the files that every rank has planned, all of them on each, into this rank's share:
///
///   ShardedPlan plan(std::move(planned));  // Local.
///   plan.agree(ranks);                     // [collective]
///   planned = plan.share();                // Local.
///
/// Tensors that are the same on all ranks, bit for bit, are dealt to them (see deal_to_ranks); one
/// that differs, such as the statistics of a BatchNorm, is rank 0's, who writes it whole, and so
/// are texts. Files of one rank alone stay with it. So the shards hold what rank 0 would have
/// saved. Of tensors of which each rank has parts it writes those; a part that several ranks have,
/// replicas of each other, is written by one of them, now this, now that.
class ShardedPlan {
 public:
  /// Cost: one pass over the data, for checksums.
  explicit ShardedPlan(std::vector<PlannedFile> planned);
  /// Finds out what all ranks have. [collective] Cost: 8 bytes a tensor or part from each rank.
  void agree(Communicator& ranks);
  /// Throws CheckpointError for a tensor that safetensors cannot hold.
  [[nodiscard]] std::vector<PlannedFile> share() const;

 private:
  [[nodiscard]] std::vector<LocalShard> share_of(std::size_t file) const;

  std::vector<PlannedFile> planned_;
  std::vector<std::vector<std::uint64_t>> digests_;  // Of each file's tensors: names and content.
  std::vector<std::vector<std::uint64_t>> places_;   // Of each file's parts: names and tiles.
  std::set<std::uint64_t> agreed_;
  std::set<std::uint64_t> written_here_;  // Of the parts.
  int rank_ = 0, ranks_ = 1;
};

/// The files of the tensors of `stem` in the checkpoint that `manifest` describes: its shards, or
/// <stem>.safetensors; none when there are no such files.
[[nodiscard]] std::vector<std::filesystem::path> tensor_files(const std::filesystem::path& folder,
                                                              const Manifest& manifest,
                                                              const std::string& stem);

/// The tensors of a catalogue one by one, by their names in the state, not in the shards.
class ShardedTensors {
 public:
  ShardedTensors(std::string stem, ShardCatalogue catalogue)
      : stem_(std::move(stem)), catalogue_(std::move(catalogue)) {}

  /// All names, with tensors that have dtype and shape and no memory (of the meta device).
  [[nodiscard]] std::vector<NamedTensor> outlines() const;
  /// On the CPU: in the mapped file, to be read only, where it lies there whole; else put together
  /// from its parts. Throws CheckpointError.
  [[nodiscard]] at::Tensor read(const std::string& name) const;
  /// As read, in memory of its own.
  [[nodiscard]] at::Tensor load(const std::string& name) const;
  /// The elements begin, …, begin + numel - 1 of the tensor, row-major, shape {numel}, in memory of
  /// its own. Throws CheckpointError; UsageError for a range that leaves the tensor. Cost: one copy
  /// of the range; what lies elsewhere is not read.
  [[nodiscard]] at::Tensor load_range(const std::string& name, std::int64_t begin,
                                      std::int64_t numel) const;

 private:
  [[nodiscard]] const ShardedTensor& find(const std::string& name) const;

  std::string stem_;
  ShardCatalogue catalogue_;
};

}  // namespace accelerate
