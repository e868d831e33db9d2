#include "accelerate/transformers/trainer/preflight.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/optim/lr_scheduler.h"
#include "accelerate/transformers/models/pre_trained_model.h"
#include "accelerate/transformers/trainer/callbacks/best_metric.h"
#include "accelerate/transformers/trainer/data/label_columns.h"
#include "accelerate/transformers/trainer/loop/evaluation.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate::detail {
namespace {

bool contains_name(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string prefix_of(const std::string& set) {
  return set.empty() ? "eval_" : "eval_" + set + "_";
}

bool is_function(const TrainerCore& core) {
  const auto& compute = core.options.compute_metrics;
  return !core.args.prediction_loss_only && (compute.function() || compute.batch_function());
}

bool watches(const TrainerCore& core) {
  return !core.args.metric_for_best_model.empty() &&
         core.args.eval_strategy != IntervalStrategy::no;
}

// Whether the metric to watch comes from the evaluation set `set`.
bool is_watched(const TrainerCore& core, const std::string& set) {
  return watches(core) &&
         evaluated_name(core.args.metric_for_best_model).starts_with(prefix_of(set));
}

void check_metrics_function(const TrainerCore& core) {
  const bool by_batch = core.options.compute_metrics.batch_function() != nullptr;
  if (by_batch == core.args.batch_eval_metrics || core.options.compute_metrics.empty()) return;
  throw ConfigError(by_batch ? "compute_metrics takes a batch and whether it is the last one, and "
                               "batch_eval_metrics is false: set it to true"
                             : "batch_eval_metrics is set: give a compute_metrics that takes a "
                               "batch and whether it is the last one. A metric of this library "
                               "already streams and does not need it");
}

// A model with one class predicts a number, and a class is the greatest of several.
void check_metric_of_classes(const TrainerCore& core) {
  const auto& metric = core.options.compute_metrics.metric();
  const auto* pretrained = core.trained.model().pretrained();
  const std::string name = core.trained.model().name();
  const bool is_head =
      name.ends_with("ForSequenceClassification") || name.ends_with("ForTokenClassification");
  if (!metric || !metric->reads_classes() || pretrained == nullptr || !is_head ||
      core.options.preprocess_logits_for_metrics || pretrained->config().num_labels() != 1)
    return;
  throw ConfigError("compute_metrics gives " + join(metric->names(), ", ") + " of classes, and " +
                    name + " predicts a number, because num_labels is 1: make the model with " +
                    "num_labels = 2 or more, or judge it by Pearson or Spearman");
}

// Schedules that lr_scheduler_type makes are checked with the arguments.
void check_watching_schedule(const TrainerCore& core) {
  const auto& schedule = core.options.optimizers.lr_scheduler;
  if (!schedule || !schedule->needs_metric() || watches(core)) return;
  throw ConfigError(
      "the lr_scheduler of `optimizers` watches a metric, and " +
      std::string(core.args.metric_for_best_model.empty()
                      ? "metric_for_best_model is not set: name the metric, for instance 'loss'"
                      : "eval_strategy is 'no': set it to 'steps' or 'epoch'"));
}

// Returns the names that an evaluation gives, as far as they are known before it runs.
std::vector<std::string> known_metrics(const TrainerCore& core) {
  std::vector<std::string> names{"loss", "runtime", "samples_per_second", "steps_per_second"};
  const auto& metric = core.options.compute_metrics.metric();
  if (metric && !core.args.prediction_loss_only)
    for (const auto& name : metric->names()) names.push_back(name);
  std::vector<std::string> all;
  for (const auto& [set, dataset] : core.options.eval_dataset.sets())
    for (const auto& name : names) all.push_back(prefix_of(set) + name);
  return all;
}

[[noreturn]] void throw_unknown_metric(const TrainerCore& core,
                                       const std::vector<std::string>& names) {
  const std::string& metric = core.args.metric_for_best_model;
  throw ConfigError("metric_for_best_model is '" + metric + "', and an evaluation gives " +
                    join(names, ", ") + "." + did_you_mean(evaluated_name(metric), names));
}

// The names that a function of the user's gives are unknown until it is called.
void check_watched_metric(const TrainerCore& core) {
  if (!watches(core)) return;
  const auto names = known_metrics(core);
  if (contains_name(names, evaluated_name(core.args.metric_for_best_model))) return;
  const bool may_be_given =
      is_function(core) && std::ranges::any_of(core.options.eval_dataset.sets(), [&](auto& set) {
        return is_watched(core, set.first);
      });
  if (!may_be_given) throw_unknown_metric(core, names);
}

void check_labels(const TrainerCore& core, const std::string& set, const TrainerDataset& dataset) {
  const std::string where = name_of_eval_set(set);
  const std::string lack = lack_of_labels(core, dataset, where);
  if (is_watched(core, set))
    throw ConfigError("metric_for_best_model is '" + core.args.metric_for_best_model + "', and " +
                      lack);
  trainer_logger().warning_once(lack);
}

EvaluationTrial try_set(TrainerCore& core, const std::string& where, const TrainerDataset& dataset,
                        bool calls_function) {
  const std::string why = "the first batch of " + where +
                          " was judged before the training, to see whether evaluations will work, "
                          "and it failed";
  try {
    return try_evaluation(core, dataset, calls_function);
  } catch (const CommError&) {
    throw;
  } catch (const Error&) {
    throw_with_context<ConfigError>(why);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {  // Such as a class that the model does not have.
    throw ConfigError(why + ": " + error.what_without_backtrace());
  }
}

}  // namespace

bool evaluates_in_training(const ResolvedArguments& args) {
  return args.eval_strategy != IntervalStrategy::no || args.eval_on_start;
}

void warn_if_never_evaluated(const TrainerCore& core) {
  const bool by_steps = core.args.eval_strategy == IntervalStrategy::steps;
  const std::int64_t end =
      by_steps ? core.record.state.max_steps : core.record.state.num_train_epochs;
  if (!watches(core) || core.args.eval_delay <= static_cast<double>(end)) return;
  trainer_logger().warning(
      "metric_for_best_model is '" + core.args.metric_for_best_model +
      "', and no evaluation comes to find it: eval_delay is beyond the training, which "
      "has " +
      std::to_string(end) + (by_steps ? " steps" : " epochs") + ". Set a smaller one");
}

void check_evaluation(const TrainerCore& core) {
  check_metrics_function(core);
  check_watching_schedule(core);
  if (!evaluates_in_training(core.args)) return;
  if (core.options.eval_dataset.empty())
    throw ConfigError("eval_strategy is '" + std::string(core.args.eval_strategy.text()) +
                      "', and the Trainer has no eval_dataset: give it one, or set eval_strategy "
                      "to 'no'");
  check_metric_of_classes(core);
  check_watched_metric(core);
  for (const auto& [name, dataset] : core.options.eval_dataset.sets())
    if (dataset.rows() != nullptr && !missing_labels(core.recipe, *dataset.rows()).empty())
      check_labels(core, name, dataset);
}

void try_evaluation(TrainerCore& core) {
  const bool streams = core.options.compute_metrics.metric() && !core.args.prediction_loss_only;
  if (!evaluates_in_training(core.args) || (!watches(core) && !streams)) return;
  const auto known = known_metrics(core);
  const bool is_known =
      contains_name(known, evaluated_name(core.args.metric_for_best_model)) || !watches(core);
  for (const auto& [name, dataset] : core.options.eval_dataset.sets()) {
    const bool calls = !is_known && is_watched(core, name);
    const auto found = try_set(core, name_of_eval_set(name), dataset, calls);
    if (!found.has_labels) check_labels(core, name, dataset);
    if (!calls || !found.metrics) continue;
    std::vector<std::string> names = known;
    for (const auto& [metric, value] : *found.metrics) names.push_back(metric);
    if (!contains_name(names, evaluated_name(core.args.metric_for_best_model)))
      throw_unknown_metric(core, names);
  }
}

}  // namespace accelerate::detail
