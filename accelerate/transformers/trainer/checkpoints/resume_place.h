// Finds where a training goes on, also with other batches than the checkpoint was made with.
#pragma once

#include <filesystem>
#include <optional>

#include "accelerate/transformers/trainer/loop/training_data.h"
#include "accelerate/transformers/trainer/loop/training_loop.h"

namespace accelerate::detail {

/// A checkpoint, as far as it is read before the optimizer and the schedule are made.
struct OpenedCheckpoint {
  std::filesystem::path folder;
  TrainerState state = {};
  std::optional<LoopRecord> record = {};  ///< None in a folder of Python's Trainer.
  bool of_python = false;
};

/// Returns where a training goes on, and makes the loader go on there. An epoch's rest is what
/// follows the samples that were trained; where batches or accumulation are others than before, it
/// is cut anew, and the plan's steps are the steps that are done and the steps that are left. Throws
/// CheckpointError where the order of the samples is another one.
[[nodiscard]] Resumed resume_place(const OpenedCheckpoint& saved, TrainingData& data,
                                   const TrainingArguments& args);

}  // namespace accelerate::detail
