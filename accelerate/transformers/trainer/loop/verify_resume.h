// Proves that a training which goes on from a checkpoint equals the training that was not cut.
#pragma once

#include "accelerate/transformers/trainer/loop/training_plan.h"
#include "accelerate/transformers/trainer/trainer_core.h"

namespace accelerate::detail {

/// Trains a few steps and saves in the middle, goes on from there a second time, and compares the
/// weights. Then everything is as it was before. Callbacks are not called. Returns a sentence with
/// the result. [collective] Throws CheckpointError that names the first part that differs, and
/// ConfigError when an epoch has too few steps. Cost: six steps and two checkpoints in output_dir,
/// which are removed.
[[nodiscard]] std::string verify_resume(TrainerCore& core, const TrainingPlan& plan,
                                        const PreparedLoader<Inputs>& loader);

}  // namespace accelerate::detail
