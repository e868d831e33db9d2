#include "accelerate/transformers/trainer/loop/best_metric.h"

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {

std::string evaluated_name(const std::string& metric) {
  return metric.starts_with("eval_") ? metric : "eval_" + metric;
}

bool is_better(const TrainingArguments& args, double value, double than) {
  return args.greater_is_better.value_or(false) ? value > than : value < than;
}

double watched_metric(const TrainingArguments& args, const LogValues& metrics) {
  const std::string name = evaluated_name(args.metric_for_best_model);
  if (const double* value = metrics.find(name)) return *value;
  std::vector<std::string> names;
  for (const auto& [metric, value] : metrics) names.push_back(metric);
  throw ConfigError("metric_for_best_model is '" + args.metric_for_best_model +
                    "', and the evaluation gave no " + name + "; it gave " + join(names, ", ") +
                    "." + did_you_mean(name, names));
}

}  // namespace accelerate::detail
