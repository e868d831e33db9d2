// Checks of evaluations before the first step. What they find would end the training after an
// epoch, or leave it without the metric that it was to watch.
#pragma once

#include <string>

#include "accelerate/transformers/trainer/trainer_core.h"

namespace accelerate::detail {

/// Whether the training evaluates by its arguments. A callback may ask for evaluations besides.
[[nodiscard]] bool evaluates_in_training(const TrainingArguments& args);

/// What messages call the set `name` of the Trainer's eval_dataset.
[[nodiscard]] std::string name_of_eval_set(const std::string& name);

/// Throws ConfigError for evaluations without a dataset, for a metric that does not fit the model,
/// and for a metric_for_best_model that no evaluation gives, also because its set has no labels.
/// Warns about other sets without labels. Local.
void check_evaluation(const TrainerCore& core);

/// Judges the first batch of each evaluation set, where the training watches a metric or
/// compute_metrics is a Metric, and forgets what it found. [collective] Throws ConfigError when the
/// batch cannot be judged or gives no metric to watch. Random numbers are drawn as without it.
void try_evaluation(TrainerCore& core);

/// Warns when a metric is watched and the training ends before its first evaluation. To be called
/// when the number of steps is known.
void warn_if_never_evaluated(const TrainerCore& core);

/// Warns, once, that `dataset`, called `where`, has no labels, so that there is no loss.
void warn_about_labels(const TrainerCore& core, const TrainerDataset& dataset,
                       const std::string& where);

}  // namespace accelerate::detail
