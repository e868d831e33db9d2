// The proof that a training which goes on from a checkpoint is the training that was not cut.
#pragma once

#include "accelerate/trainer/loop/training_plan.h"
#include "accelerate/trainer/trainer_core.h"

namespace accelerate::detail {

/// Trains a few steps, saves in the middle, goes on from there a second time, and compares the
/// weights of both ways; then everything is as it was. Callbacks are not called. Returns a sentence
/// with the result. [collective] Throws CheckpointError, with the first parameter that differs.
/// Cost: six steps and two checkpoints in output_dir, which are removed.
[[nodiscard]] std::string verify_resume(TrainerCore& core, const TrainingPlan& plan,
                                        const PreparedLoader<Inputs>& loader);

}  // namespace accelerate::detail
