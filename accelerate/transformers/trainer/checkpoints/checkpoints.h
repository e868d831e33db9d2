// The checkpoints of a training: folders output_dir/checkpoint-<step>. Each is complete or absent,
// and holds the whole model, which from_pretrained() can open. See docs/trainer.md#checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "accelerate/checkpoint/python/python_folder.h"
#include "accelerate/transformers/trainer/checkpoints/loop_record.h"
#include "accelerate/transformers/trainer/checkpoints/older_run.h"
#include "accelerate/transformers/trainer/data/training_plan.h"
#include "accelerate/transformers/trainer/hub/trainer_hub.h"
#include "accelerate/transformers/trainer/trainer_core.h"
#include "accelerate/transformers/trainer/trainer_state.h"

namespace accelerate::detail {

/// A checkpoint, as far as it is read before the optimizer and the schedule are made.
struct OpenedCheckpoint {
  std::filesystem::path folder;
  TrainerState state = {};
  std::optional<LoopRecord> record = {};  ///< None in a folder of Python's Trainer.
  StateWriter writer = StateWriter::this_library;
};

/// Where a resumed training continues.
struct Resumed {
  std::int64_t epoch = 0;
  std::int64_t updates = 0;  ///< Steps of that epoch that are already done.
  bool inside = false;       ///< Whether the loader stands inside that epoch, and continues there.
  EpochSteps steps = {};     ///< The steps of that epoch; the later ones are whole.
  std::optional<LoopRecord> record = {};  ///< What the checkpoint said about the loop.
};

/// Returns where a training goes on, and makes the loader go on there. An epoch's rest is what
/// follows the samples that were trained; where batches or accumulation are others than before, it
/// is cut anew, and the plan's steps are the steps that are done and the steps that are left. Throws
/// CheckpointError where the order of the samples is another one.
[[nodiscard]] Resumed resume_place(const OpenedCheckpoint& saved, TrainingData& data,
                                   const ResolvedArguments& args);

// Writes the results of a run as files and as text. Names are as in Transformers.

/// Writes trainer_state.json into `folder`.
void write_state(const std::filesystem::path& folder, const TrainerState& state);

/// Writes <split>_results.json into `folder` and, with `combined`, adds the values to
/// all_results.json. Throws FileError, and ConfigError for an all_results.json that is not a map.
void write_results(const std::filesystem::path& folder, const std::string& split,
                   const LogValues& metrics, bool combined);

/// Returns a table with one metric a line, sorted by name; run times as h:mm:ss.
[[nodiscard]] std::string metrics_table(const std::string& split, const LogValues& metrics);

class Checkpoints {
 public:
  /// `hub`: where each checkpoint is pushed. Both references must outlive this.
  Checkpoints(TrainerCore& core, TrainerHub& hub) : core_(core), hub_(hub) {}

  /// Does what a killed training left to do in output_dir. [collective] Throws CheckpointError.
  void settle() const;
  /// Returns the newest checkpoint that a training under this launcher saved before the launcher
  /// started all ranks again; nullopt if they run for the first time or none was saved.
  [[nodiscard]] std::optional<std::filesystem::path> of_this_launch() const;
  /// Throws ConfigError when output_dir holds checkpoints of another run, and `from` is not one of
  /// them. With overwrite_output_dir, throws it when such a checkpoint holds anything that is not of
  /// a checkpoint; else they are dropped once this run has a checkpoint. `from`: the checkpoint to
  /// go on from, if any. [collective]
  void begin_run(const std::optional<std::filesystem::path>& from);
  /// Saves a checkpoint of the present step, with `record`, removes checkpoints beyond
  /// save_total_limit, and begins to push the new one. [collective]
  void save(LoopRecord record);
  /// Returns the folder of the checkpoint of `step`, there or not.
  [[nodiscard]] std::filesystem::path folder_of(std::int64_t step) const;
  /// Returns the folder to resume from; nullopt: start from the beginning. The newest checkpoint is
  /// the newest complete one: Python's Trainer marks those that it has not finished. Throws
  /// ConfigError when the newest checkpoint is asked for and there is none, and when a named folder
  /// does not exist.
  [[nodiscard]] std::optional<std::filesystem::path> find(const ResumeOption& asked) const;
  /// Reads what `folder` says about its training, and loads nothing. [collective] Throws
  /// CheckpointError.
  [[nodiscard]] OpenedCheckpoint open(const std::filesystem::path& folder) const;
  /// Loads a checkpoint into the prepared objects, the callbacks and the state, but for the place of
  /// the training's loader. [collective] Throws CheckpointError.
  void load(const OpenedCheckpoint& opened);
  /// Loads the weights of the best checkpoint, if there is one. [collective]
  void load_best();
  /// Ends the training that begin_run() began: drops an older run's checkpoints that are still there
  /// and, with save_total_limit 1, all checkpoints but the best one. Local.
  void end_run();

 private:
  [[nodiscard]] bool writes_here() const;
  void write_files(const std::filesystem::path& folder, const LoopRecord& record) const;
  void note_best(const LoopRecord& record);
  void rotate();
  void keep_best_alone();
  void remove(const NumberedCheckpoint& checkpoint);

  TrainerCore& core_;
  TrainerHub& hub_;
  std::string run_;  // Names this call of train() in its checkpoints.
  OlderRun older_;
  std::set<std::int64_t> kept_;  // Steps whose folders could not be removed; each is reported once.
};

}  // namespace accelerate::detail
