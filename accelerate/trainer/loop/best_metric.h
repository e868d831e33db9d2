// The metric by which a training finds its best model.
#pragma once

#include <string>

#include "accelerate/trainer/arguments/training_arguments.h"
#include "accelerate/trainer/trainer_state.h"

namespace accelerate::detail {

/// "accuracy" as evaluate() names it: "eval_accuracy".
[[nodiscard]] std::string evaluated_name(const std::string& metric);
/// Whether `value` is better than `than`, as greater_is_better says. NaN never is.
[[nodiscard]] bool is_better(const TrainingArguments& args, double value, double than);
/// The value of metric_for_best_model. Throws ConfigError, with the names that are there.
[[nodiscard]] double watched_metric(const TrainingArguments& args, const LogValues& metrics);

}  // namespace accelerate::detail
