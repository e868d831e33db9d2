// What this rank writes in a save, for each way in which ranks can share the work.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/checkpoint/checkpointable.h"
#include "accelerate/checkpoint/shard_collector.h"
#include "accelerate/checkpoint/sharded_files.h"
#include "accelerate/checkpoint/training_state.h"

namespace accelerate::detail {

/// Who writes what all ranks have, and what ranks have parts of.
enum class SaveLayout {
  by_leaders,    ///< No tensor is spread over ranks: one rank per disk writes all.
  shards,        ///< Each rank writes a share.
  whole_models,  ///< Rank 0 collects models and writes them whole; of the rest each rank a share.
  whole,         ///< Rank 0 collects all tensors and writes them whole.
};
[[nodiscard]] SaveLayout layout_of(const SaveStateOptions& options, const TrainingState& training);

/// Used in this order:
///
///   SavePlan plan(layout, planned);                            // Local.
///   plan.agree(ranks);                                         // [collective]
///   plan.divide();                                             // Local.
///   plan.copy(background);                                     // [collective] Optional.
///   plan.together([&] { write(plan.files()); });               // [collective]
class SavePlan {
 public:
  /// `planned`: the files of plan_training_state().
  SavePlan(SaveLayout layout, std::vector<PlannedFile> planned);
  /// Finds out what the other ranks have. Throws CheckpointError, CommError. [collective]
  void agree(Communicator& ranks);
  /// Whether divide() has anything to do, which may throw on one rank alone.
  [[nodiscard]] bool has_shards() const { return shards_.has_value(); }
  /// Cuts this rank's share. Throws as ShardedPlan::share().
  void divide();
  /// Replaces all tensors by those that `copy` returns; collects them first. [collective]
  void copy(const std::function<std::vector<PlannedFile>(std::vector<PlannedFile>)>& copy);
  /// Runs `step`, in which files() may be read. [collective] if tensors are collected.
  void together(const std::function<void()>& step) const;

  [[nodiscard]] const std::vector<PlannedFile>& files() const { return files_; }

 private:
  std::vector<PlannedFile> files_;      // What this rank writes.
  std::vector<PlannedFile> collected_;  // Files that rank 0 writes whole; until divide().
  std::optional<ShardedPlan> shards_;   // Files of which each rank writes a share.
  std::shared_ptr<ShardCollector>
      collector_;  // Fetches the tensors of collected files; may be null.
};

}  // namespace accelerate::detail
