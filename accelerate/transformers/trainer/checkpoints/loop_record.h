// What a checkpoint says about the loop beside trainer_state.json: where it was, what was still to
// be done at that step, and the losses that are not logged yet.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/data/loader_control.h"
#include "accelerate/transformers/trainer/data/epoch_batches.h"
#include "accelerate/transformers/trainer/trainer_state.h"

namespace accelerate::detail {

struct LoopRecord {
  std::string run = {};      ///< Names the call of train() that saved the checkpoint.
  std::int64_t epoch = 0;    ///< The epoch of the last step.
  std::int64_t updates = 0;  ///< Steps of that epoch that are done.
  bool epoch_over = false;   ///< Whether that epoch has no further steps.
  bool epoch_ended = false;  ///< Whether on_epoch_end was called after the last step.

  EpochCut cut = {};                   ///< How the samples of that epoch become batches.
  double epoch_begin = 0;              ///< The share of that epoch done before it was cut so.
  LoaderState loader = {};             ///< Where the training's loader was.
  std::int64_t updates_per_epoch = 0;  ///< Steps of a whole epoch.
  std::int64_t extra_steps = 0;        ///< As in TrainingPlan.

  bool interrupted = false;   ///< Whether a signal asked for the checkpoint.
  bool is_extra = false;      ///< Whether nothing but the signal asked for it.
  bool evaluate_due = false;  ///< Whether the evaluation of the last step is left out.
  bool save_due = false;      ///< Whether the step asked for a checkpoint behind that evaluation.
  std::int64_t evaluated_sets = 0;  ///< Sets of that evaluation that are done.
  LogValues evaluated = {};         ///< What they gave.
  bool stop_due = false;            ///< Whether a callback asked for the end of the training.

  std::vector<double> losses = {};  ///< Of each rank: sum over the steps since the last log.
  double total_loss = 0;            ///< Mean over the ranks, summed up to the last log.
  double loss_before = 0;           ///< The part of it that training_loss does not count.
  std::int64_t first_step = 0;      ///< Steps that training_loss does not count.
  std::int64_t step_logged = 0;     ///< The step of the last log.
  std::optional<double> grad_norm = {}, learning_rate = {};  ///< Of the last step.

  /// Writes training_loop.json into `folder`. Throws CheckpointError.
  void write(const std::filesystem::path& folder) const;
  /// Reads training_loop.json of `folder`; nullopt where there is none, as in a folder of Python's
  /// Trainer. Throws CheckpointError.
  [[nodiscard]] static std::optional<LoopRecord> read(const std::filesystem::path& folder);
};

}  // namespace accelerate::detail
