// What is looked at before the first step, so that a mistake costs seconds and not hours.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "accelerate/base/file_system.h"
#include "accelerate/trainer/loop/training_plan.h"
#include "accelerate/trainer/trainer_core.h"

namespace accelerate::detail {

/// Throws ConfigError for what would end a training later: no dataset or an empty one, columns or
/// labels that the model cannot take, evaluations without a dataset, a metric to watch that nobody
/// computes, several evaluation sets where one is to be watched, label_names that no column has.
/// Cost: one pass over the labels of a Dataset. Local.
void check_training(const TrainerCore& core);

/// Makes output_dir. Throws ConfigError when it cannot be written into, or holds checkpoints of
/// which none is `resumed`, the one to go on from, empty if there is none. Local.
void check_output_dir(const TrainerCore& core, const std::filesystem::path& resumed);

/// Keeps output_dir from other trainings while it lives. Null on ranks but the main one.
/// [collective] Throws ConfigError, with who trains there. While held there is a file
/// ".training.lock" in the folder.
[[nodiscard]] std::unique_ptr<FolderLock> lock_output_dir(TrainerCore& core);

/// What will happen, as lines for a person: examples, steps, schedule as a small curve, parameters,
/// memory.
[[nodiscard]] std::string describe_training(const TrainerCore& core, const TrainingPlan& plan);

/// The learning rates of `steps` steps as one line of block characters, `width` of them.
[[nodiscard]] std::string rate_curve(const std::vector<double>& rates, std::size_t width);

}  // namespace accelerate::detail
