#include "accelerate/transformers/trainer/callbacks/best_metric.h"

#include <limits>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {

std::string evaluated_name(const std::string& metric) {
  return metric.starts_with("eval_") ? metric : "eval_" + metric;
}

bool is_better(const ResolvedArguments& args, double value, double than) {
  return args.greater_is_better.value_or(false) ? value > than : value < than;
}

double watched_metric(const ResolvedArguments& args, const LogValues& metrics) {
  const std::string name = evaluated_name(args.metric_for_best_model);
  if (const double* value = metrics.find(name)) return *value;
  std::vector<std::string> names;
  for (const auto& [metric, value] : metrics) names.push_back(metric);
  throw ConfigError("metric_for_best_model is '" + args.metric_for_best_model +
                    "', and the evaluation gave no " + name + "; it gave " + join(names, ", ") +
                    "." + did_you_mean(name, names));
}

void note_if_best(const ResolvedArguments& args, const LogValues& metrics, TrainerState& state,
                  TrainerControl& control) {
  if (args.metric_for_best_model.empty()) return;
  const double value = watched_metric(args, metrics);
  // A metric that is not a number is never the best one, not even the first.
  if (!state.best_metric)
    state.best_metric =
        std::numeric_limits<double>::infinity() * (args.greater_is_better.value_or(false) ? -1 : 1);
  const bool is_new = is_better(args, value, *state.best_metric);
  if (is_new) {
    state.best_metric = value;
    if (args.save_strategy != SaveStrategy::no) state.best_global_step = state.global_step;
  }
  if (args.save_strategy == SaveStrategy::best) control.should_save = is_new;
}

}  // namespace accelerate::detail
