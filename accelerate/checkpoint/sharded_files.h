// Saves in shards: each rank writes a share of what all ranks have alike. Loading combines what any
// number of ranks wrote. docs/formats/sharded.md describes the files.
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

/// Plans the files in which rank `rank` writes its `shards` of the tensors of `stem` ("model").
/// Usually one file; none without shards; as many as the rank has shards of one tensor. Copies
/// nothing. Throws UsageError if a shard's tensor does not have the shape of its tile, or if the
/// tile exceeds the whole.
[[nodiscard]] std::vector<PlannedFile> plan_shards(const std::string& stem, int rank,
                                                   const std::vector<LocalShard>& shards);

/// Turns the files that every rank has planned in full into this rank's share:
///
///   ShardedPlan plan(std::move(planned));  // Local.
///   plan.agree(ranks);                     // [collective]
///   planned = plan.share();                // Local.
///
/// Tensors that are equal on all ranks, bit for bit, are dealt to the ranks (see deal_to_ranks).
/// Rank 0 writes texts, and whole tensors that differ, such as the statistics of a BatchNorm. So
/// the shards hold what rank 0 would have saved. Files that only one rank has planned stay with it.
/// Of tensors in parts each rank writes its parts. If several ranks have the same part, one of them
/// writes it, in turn.
class ShardedPlan {
 public:
  /// Computes checksums. Cost: one pass over the data.
  explicit ShardedPlan(std::vector<PlannedFile> planned);
  /// Finds out what all ranks have. [collective] Cost: 8 bytes per tensor or part from each rank.
  void agree(Communicator& ranks);
  /// Returns this rank's files. Throws CheckpointError for a tensor that safetensors cannot hold.
  [[nodiscard]] std::vector<PlannedFile> share() const;

 private:
  [[nodiscard]] std::vector<LocalShard> share_of(std::size_t file) const;

  std::vector<PlannedFile> planned_;
  std::vector<std::vector<std::uint64_t>> digests_;  // Of each file's tensors: names and content.
  std::vector<std::vector<std::uint64_t>> places_;   // Of each file's parts: names and tiles.
  std::set<std::uint64_t> agreed_;
  std::set<std::uint64_t> written_here_;  // The parts that this rank writes.
  int rank_ = 0, ranks_ = 1;
};

/// Returns the files with the tensors of `stem` in the checkpoint that `manifest` describes: its
/// shards, or <stem>.safetensors. Empty if the checkpoint has no such files.
[[nodiscard]] std::vector<std::filesystem::path> tensor_files(const std::filesystem::path& folder,
                                                              const Manifest& manifest,
                                                              const std::string& stem);

/// Reads the tensors of a catalogue one by one, by their names in the state, not in the shards.
class ShardedTensors {
 public:
  ShardedTensors(std::string stem, ShardCatalogue catalogue)
      : stem_(std::move(stem)), catalogue_(std::move(catalogue)) {}

  /// All names, with tensors that have a dtype and a shape but no memory (on the meta device).
  [[nodiscard]] std::vector<NamedTensor> outlines() const;
  /// Returns the tensor on the CPU. If the file holds it whole and aligned, it lies in the mapped
  /// file and must not be written; else it is put together from its parts. Throws CheckpointError.
  [[nodiscard]] at::Tensor read(const std::string& name) const;
  /// As read, always into new memory.
  [[nodiscard]] at::Tensor load(const std::string& name) const;
  /// Returns the elements begin, …, begin + numel - 1 of the tensor, row-major, shape {numel}, in
  /// new memory. Throws CheckpointError. Throws UsageError for a range that exceeds the tensor.
  /// Cost: one copy of the range; nothing else is read.
  [[nodiscard]] at::Tensor load_range(const std::string& name, std::int64_t begin,
                                      std::int64_t numel) const;

 private:
  [[nodiscard]] const ShardedTensor& find(const std::string& name) const;

  std::string stem_;
  ShardCatalogue catalogue_;
};

}  // namespace accelerate
