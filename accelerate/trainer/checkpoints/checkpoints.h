// The checkpoints of a training: output_dir/checkpoint-<step>, each complete or absent, each with
// the whole model as from_pretrained() opens it. docs/trainer.md#checkpoints.
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

/// The checkpoints of `output_dir`, lowest step first; none when it does not exist.
[[nodiscard]] std::vector<StepCheckpoint> step_checkpoints(const std::filesystem::path& output_dir);

/// Which of `all` are too many: the newest `limit` stay, and so does `best`, which counts among
/// them unless it would be the only one.
[[nodiscard]] std::vector<StepCheckpoint> beyond_limit(std::vector<StepCheckpoint> all,
                                                       std::int64_t limit,
                                                       const std::filesystem::path& best);

class Checkpoints {
 public:
  explicit Checkpoints(TrainerCore& core) : core_(core) {}

  /// Saves the present step and removes checkpoints beyond save_total_limit. [collective]
  std::filesystem::path save();
  /// The folder to go on from; nullopt: begin anew. Throws ConfigError when the newest one is asked
  /// for and there is none.
  [[nodiscard]] std::optional<std::filesystem::path> find(const ResumeOption& asked) const;
  /// Loads `folder` into what was prepared, and tells where to go on. [collective] Throws
  /// CheckpointError.
  [[nodiscard]] Resumed resume(const std::filesystem::path& folder, const TrainingPlan& plan,
                               PreparedLoader<Inputs>& loader);
  /// Loads the weights of the best checkpoint, if there is one. [collective]
  void load_best();
  /// With save_total_limit 1 the best checkpoint alone stays at the end. Local.
  void keep_best_alone();
  /// The state with what callbacks keep, as files have it. Local.
  [[nodiscard]] TrainerState saved_state() const;
  /// Writes what from_pretrained() needs beside the weights, and training_args.json, into
  /// `folder`. Local, on one rank.
  void write_model_files(const std::filesystem::path& folder) const;

 private:
  [[nodiscard]] std::filesystem::path folder_of(std::int64_t step) const;
  [[nodiscard]] bool writes_here() const;
  void write_files(const std::filesystem::path& folder) const;
  void note_best();
  void rotate();
  void remove(const StepCheckpoint& checkpoint);

  TrainerCore& core_;
  std::set<std::int64_t> kept_;  // Steps of folders that are not ours to remove, said once.
};

}  // namespace accelerate::detail
