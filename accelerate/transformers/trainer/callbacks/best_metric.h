// The metric by which a training finds its best model.
#pragma once

#include <string>

#include "accelerate/transformers/trainer/arguments/training_arguments.h"
#include "accelerate/transformers/trainer/trainer_state.h"

namespace accelerate::detail {

/// Returns the name that evaluate() gives to `metric`: "eval_accuracy" for "accuracy".
[[nodiscard]] std::string evaluated_name(const std::string& metric);
/// Whether `value` is better than `than`, as greater_is_better says. NaN is never better.
[[nodiscard]] bool is_better(const ResolvedArguments& args, double value, double than);
/// Returns the value of metric_for_best_model. Throws ConfigError that lists the names in
/// `metrics`.
[[nodiscard]] double watched_metric(const ResolvedArguments& args, const LogValues& metrics);

/// Notes in `state` that the model is the best one so far, if `metrics` say so. With save_strategy
/// `best`, also decides whether to save. Does nothing without a metric_for_best_model.
void note_if_best(const ResolvedArguments& args, const LogValues& metrics, TrainerState& state,
                  TrainerControl& control);

}  // namespace accelerate::detail
