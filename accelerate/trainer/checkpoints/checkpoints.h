// The checkpoints of a training: folders output_dir/checkpoint-<step>. Each is complete or absent,
// and holds the whole model, which from_pretrained() can open. See docs/trainer.md#checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "accelerate/trainer/loop/training_loop.h"
#include "accelerate/trainer/trainer_core.h"

namespace accelerate::detail {

/// A folder checkpoint-<step>.
struct StepCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path folder;
};

/// Returns the checkpoints of `output_dir`, lowest step first; none when the folder does not exist.
[[nodiscard]] std::vector<StepCheckpoint> step_checkpoints(const std::filesystem::path& output_dir);

/// Returns the checkpoints of `all` that are too many. The newest `limit` stay; `best` stays and
/// counts as one of them. With a limit of 1 both `best` and the newest stay.
[[nodiscard]] std::vector<StepCheckpoint> beyond_limit(std::vector<StepCheckpoint> all,
                                                       std::int64_t limit,
                                                       const std::filesystem::path& best);

class Checkpoints {
 public:
  explicit Checkpoints(TrainerCore& core) : core_(core) {}

  /// Saves a checkpoint of the present step and removes checkpoints beyond save_total_limit.
  /// Returns its folder. [collective]
  std::filesystem::path save();
  /// Returns the folder to go on from; nullopt: begin anew. Throws ConfigError when the newest
  /// checkpoint is asked for and there is none, and when a named folder does not exist.
  [[nodiscard]] std::optional<std::filesystem::path> find(const ResumeOption& asked) const;
  /// Loads `folder` into the prepared objects and returns where to go on. [collective] Throws
  /// CheckpointError.
  [[nodiscard]] Resumed resume(const std::filesystem::path& folder, const TrainingPlan& plan,
                               PreparedLoader<Inputs>& loader);
  /// Loads the weights of the best checkpoint, if there is one. [collective]
  void load_best();
  /// With save_total_limit 1, removes all checkpoints but the best one. Local.
  void keep_best_alone();
  /// Returns the state, with the states of callbacks, as it is written to files. Local.
  [[nodiscard]] TrainerState saved_state() const;
  /// Writes into `folder` what from_pretrained() needs beside the weights, and training_args.json.
  /// Local, on one rank.
  void write_model_files(const std::filesystem::path& folder) const;

 private:
  [[nodiscard]] std::filesystem::path folder_of(std::int64_t step) const;
  [[nodiscard]] bool writes_here() const;
  void write_files(const std::filesystem::path& folder) const;
  void note_best();
  void rotate();
  void remove(const StepCheckpoint& checkpoint);

  TrainerCore& core_;
  std::set<std::int64_t> kept_;  // Steps whose folders could not be removed; each is reported once.
};

}  // namespace accelerate::detail
