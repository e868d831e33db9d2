// The metric by which a training finds its best model.
#pragma once

#include <string>

#include "accelerate/transformers/trainer/arguments/training_arguments.h"
#include "accelerate/transformers/trainer/trainer_state.h"

namespace accelerate::detail {

/// Returns the name that evaluate() gives to `metric`: "eval_accuracy" for "accuracy".
[[nodiscard]] std::string evaluated_name(const std::string& metric);
/// Whether `value` is better than `than`, as greater_is_better says. NaN is never better.
[[nodiscard]] bool is_better(const TrainingArguments& args, double value, double than);
/// Returns the value of metric_for_best_model. Throws ConfigError that lists the names in
/// `metrics`.
[[nodiscard]] double watched_metric(const TrainingArguments& args, const LogValues& metrics);

}  // namespace accelerate::detail
