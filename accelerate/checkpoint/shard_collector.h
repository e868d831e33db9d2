// Whole tensors of the parts that ranks have, one at a time and where they are wanted: for files
// and readers that know of no shards.
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
  /// Tells all ranks who has what; each part is then sent by one of those who have it. [collective]
  /// `ranks` must outlive it. Throws CheckpointError on all ranks for parts of one tensor that
  /// disagree about its dtype or shape.
  ShardCollector(Communicator& ranks, std::vector<LocalShard> shards);

  /// All tensors of all ranks, on the meta device; the same on all ranks.
  [[nodiscard]] const std::vector<NamedTensor>& outlines() const { return outlines_; }

  /// Runs `step`: on rank 0 while the other ranks hand over what it collects, on these afterwards.
  /// [collective] What `step` throws on rank 0 it throws there only. Throws CommError.
  void together(const std::function<void()>& step);

  /// The whole tensor, on the CPU. On rank 0, inside together(). Throws CheckpointError for a name
  /// that there is not. Cost: its bytes on the wire; memory: the tensor and its largest part.
  [[nodiscard]] at::Tensor collect(const std::string& name);

 private:
  struct Part {
    int rank = 0;
    std::size_t index = 0;  // Of that rank's shards.
    TensorTile tile;
  };

  void add(int rank, std::size_t index, const NamedTensor& outline, TensorTile tile);
  void serve();
  void ask(std::int64_t number);

  Communicator& ranks_;
  std::vector<LocalShard> shards_;
  std::vector<NamedTensor> outlines_;
  std::vector<std::vector<Part>> parts_;  // Of each of the outlines.
  std::map<std::string, std::size_t> numbers_;
};

/// Makes files that ranks have planned with parts of tensors into whole ones, which rank 0 writes:
/// there each part's tensor becomes one on the meta device that is fetched from the others, so the
/// files are to be written inside together(). Others keep what is theirs alone. [collective] Throws
/// as the constructor.
[[nodiscard]] std::shared_ptr<ShardCollector> plan_whole(std::vector<PlannedFile>& planned,
                                                         Communicator& ranks);

}  // namespace accelerate
