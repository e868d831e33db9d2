// Checks before the first step, so that a mistake costs seconds and not hours.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "accelerate/base/folder_lock.h"
#include "accelerate/transformers/trainer/data/training_plan.h"
#include "accelerate/transformers/trainer/trainer_core.h"

namespace accelerate::detail {

/// Throws ConfigError for mistakes that would end a training later:
/// - no dataset, or an empty one; a stream of unknown length without max_steps
/// - columns or labels that the model cannot take; label_names that no column has
/// - evaluations without a dataset
/// - a metric_for_best_model that no evaluation gives, also because evaluation sets have names
/// Cost: one pass over the labels of a Dataset. Local.
void check_training(const TrainerCore& core);

/// Whether the training evaluates by its arguments. A callback may ask for evaluations besides.
[[nodiscard]] bool evaluates_in_training(const ResolvedArguments& args);

/// The part of check_training() about evaluations. Throws ConfigError for evaluations without a
/// dataset, for a metric that does not fit the model, and for a metric_for_best_model that no
/// evaluation gives, also because its set has no labels. Warns about other sets without labels.
/// Local.
void check_evaluation(const TrainerCore& core);

/// Judges the first batch of each evaluation set, where the training watches a metric or
/// compute_metrics is a Metric, and forgets what it found. [collective] Throws ConfigError when the
/// batch cannot be judged or gives no metric to watch. Random numbers are drawn as without it.
void try_evaluation(TrainerCore& core);

/// Warns when a metric is watched and the training ends before its first evaluation. To be called
/// when the number of steps is known.
void warn_if_never_evaluated(const TrainerCore& core);

/// Creates output_dir. Throws ConfigError when it cannot be written into. Local.
void make_output_dir(const TrainerCore& core);

/// Locks output_dir against other trainings while the returned object lives. Returns null on every
/// rank but the main one. [collective] Throws ConfigError that says who trains there. While the
/// lock is held there is a file ".training.lock" in the folder.
[[nodiscard]] std::unique_ptr<FolderLock> lock_output_dir(TrainerCore& core);

/// Describes the training to come in lines for a person: examples, steps, the schedule as a small
/// curve, parameters, memory.
[[nodiscard]] std::string describe_training(const TrainerCore& core, const TrainingPlan& plan);

/// Says why a call of train() made no step, and what to change.
[[nodiscard]] std::string why_nothing_was_trained(const TrainerCore& core,
                                                  const TrainingPlan& plan);

/// Draws the learning rates of all steps as one line of block characters, at most `width` of them.
[[nodiscard]] std::string rate_curve(const std::vector<double>& rates, std::size_t width);

}  // namespace accelerate::detail
