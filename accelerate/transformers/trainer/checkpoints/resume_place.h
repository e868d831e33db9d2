// Finds where a resumed training continues, also with other batches than the checkpoint was made with.
#pragma once

#include <filesystem>
#include <optional>

#include "accelerate/transformers/trainer/checkpoints/loop_record.h"
#include "accelerate/transformers/trainer/data/training_data.h"
#include "accelerate/transformers/trainer/trainer_state.h"

namespace accelerate::detail {

/// A checkpoint, as far as it is read before the optimizer and the schedule are made.
struct OpenedCheckpoint {
  std::filesystem::path folder;
  TrainerState state = {};
  std::optional<LoopRecord> record = {};  ///< None in a folder of Python's Trainer.
  bool of_python = false;
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

}  // namespace accelerate::detail
