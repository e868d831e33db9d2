// Puts whole tensors together from the ranks' parts, one at a time, for files and readers that know
// nothing of shards.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/checkpoint/planned_files.h"
#include "accelerate/comm/communicator.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

/// Collects on rank 0:
///
///   ShardCollector collector(ranks, shards_of_this_rank);       // [collective]
///   collector.together([&] {                                    // [collective]
///     if (ranks.rank() == 0) write(collector.collect("w"));     // Any tensors, in any order.
///   });
class ShardCollector {
 public:
  /// Tells all ranks who has which part. If several ranks have a part, one of them sends it.
  /// [collective] `ranks` must outlive the collector. Throws CheckpointError on all ranks if parts
  /// of one tensor disagree about its dtype or shape.
  ShardCollector(Communicator& ranks, std::vector<LocalShard> shards);

  /// All tensors of all ranks, on the meta device; the same on all ranks.
  [[nodiscard]] const std::vector<NamedTensor>& outlines() const { return outlines_; }

  /// Runs `step`. On rank 0 it runs while the other ranks send what it collects; on the other ranks
  /// it runs afterwards. [collective] What `step` throws on rank 0 is thrown on rank 0 only. Throws
  /// CommError.
  void together(const std::function<void()>& step);

  /// Returns the whole tensor, on the CPU. Call it on rank 0, inside together(). Throws
  /// CheckpointError for an unknown name. Cost: its bytes on the wire. Memory: the tensor and its
  /// largest part.
  [[nodiscard]] at::Tensor collect(const std::string& name);

 private:
  struct Part {
    int rank = 0;
    std::size_t index = 0;  // Among that rank's shards.
    TensorTile tile;
  };

  void add(int rank, std::size_t index, const NamedTensor& outline, TensorTile tile);
  void serve();
  void ask(std::int64_t number);
  [[nodiscard]] at::Tensor in_memory(const at::Tensor& part);

  Communicator& ranks_;
  std::vector<LocalShard> shards_;
  std::vector<NamedTensor> outlines_;
  std::vector<std::vector<Part>> parts_;  // Of each outline.
  std::map<std::string, std::size_t> numbers_;
};

/// Turns planned files with parts of tensors into whole files, which rank 0 writes. On rank 0 each
/// part becomes a tensor on the meta device that is fetched from the other ranks, so the files must
/// be written inside together(). Other ranks keep only files that they alone have planned.
/// [collective] Throws as the constructor.
[[nodiscard]] std::shared_ptr<ShardCollector> plan_whole(std::vector<PlannedFile>& planned,
                                                         Communicator& ranks);

}  // namespace accelerate
