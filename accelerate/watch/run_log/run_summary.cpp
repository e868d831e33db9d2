#include "accelerate/watch/run_log/run_summary.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "accelerate/base/text.h"
#include "accelerate/watch/run_log/display_text.h"

namespace accelerate {
namespace {

// --- how it stands

// Returns the seconds without an event after which a run counts as silent.
double silence_limit(const RunHistory& history) {
  constexpr double kLeast = 60, kIntervals = 10;
  const auto& logs = history.logs;
  if (logs.size() < 2 || !logs.back().time || !logs[logs.size() - 2].time) return 10 * kLeast;
  return std::max(kLeast, kIntervals * (*logs.back().time - *logs[logs.size() - 2].time));
}

// Returns the seconds since the newest event; 0 if that event has no time.
double seconds_of_silence(const RunHistory& history, double now) {
  return history.segments.empty() ? 0 : now - history.segments.back().last.value_or(now);
}

void set_open_status(RunSummary& summary, const RunHistory& history, std::optional<double> now) {
  const double silence = now ? seconds_of_silence(history, *now) : 0;
  summary.mood = RunMood::busy;
  if (!history.is_live) {
    summary.status = "state at step " + detail::grouped_text(history.step);
  } else if (silence > silence_limit(history)) {
    summary.status = "silent for " + detail::duration_text(silence);
    summary.mood = RunMood::warning;
  } else {
    summary.status = now ? "running" : "running or cut off";
  }
}

void set_status(RunSummary& summary, const RunHistory& history, std::optional<double> now) {
  if (!history.end) return set_open_status(summary, history, now);
  const std::string& reason = history.end->reason;
  if (reason == "finished") {
    summary.mood = RunMood::good;
    summary.status = reason;
  } else if (reason == "error") {
    summary.mood = RunMood::bad;
    summary.status = "ended by an error";
  } else {
    summary.mood = RunMood::warning;
    summary.status = reason == "stopped" ? "stopped early" : "ended by " + reason;
  }
}

// --- time

std::optional<double> total_seconds(const RunHistory& history) {
  std::optional<double> total;
  for (const auto& segment : history.segments)
    if (segment.begin && segment.last)
      total = total.value_or(0) + std::max(0.0, *segment.last - *segment.begin);
  return total;
}

std::optional<double> metric_at(const RunMetrics& metrics, std::string_view name) {
  const auto found = std::ranges::find(metrics, name, &RunMetrics::value_type::first);
  if (found == metrics.end()) return std::nullopt;
  return found->second;
}

// Returns steps per second over the last logs of the newest segment. The start of the segment
// counts as a log.
std::optional<double> current_rate(const RunHistory& history) {
  constexpr std::size_t kLogs = 20;
  if (history.segments.empty() || history.logs.empty() || !history.logs.back().time) return {};
  const RunSegment& segment = history.segments.back();
  const auto& logs = history.logs;
  const RunLogged& last = logs.back();
  std::int64_t step = segment.first_step;
  std::optional<double> time = segment.begin;
  if (logs.size() > kLogs && logs[logs.size() - kLogs].step >= step) {
    step = logs[logs.size() - kLogs].step;
    time = logs[logs.size() - kLogs].time;
  }
  if (!time || last.step <= step || *last.time <= *time) return {};
  return static_cast<double>(last.step - step) / (*last.time - *time);
}

void set_progress(RunSummary& summary, const RunHistory& history) {
  summary.steps_per_second = current_rate(history);
  const auto steps = history.begin ? history.begin->max_steps : std::nullopt;
  if (!steps || *steps <= 0) return;
  const auto done = static_cast<double>(history.step);
  summary.fraction = std::clamp(done / static_cast<double>(*steps), 0.0, 1.0);
}

// --- means

template <typename Value>
std::optional<double> mean_of(const RunHistory& history, Value value) {
  double sum = 0;
  std::size_t count = 0;
  for (const auto& log : history.logs) {
    const std::optional<double> number = value(log);
    if (!number || !std::isfinite(*number)) continue;
    sum += *number;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

std::optional<StepSeconds> mean_step(const RunHistory& history) {
  std::array<double, kStepParts> mean{};
  for (std::size_t i = 0; i < kStepParts; ++i) {
    const auto part = mean_of(history, [i](const RunLogged& log) -> std::optional<double> {
      if (!log.step_seconds) return std::nullopt;
      return log.step_seconds->parts()[i];
    });
    if (!part) return std::nullopt;
    mean[i] = *part;
  }
  return StepSeconds{mean[0], mean[1], mean[2], mean[3], mean[4], mean[5]};
}

std::optional<double> most_memory(const RunHistory& history) {
  std::optional<double> most;
  for (const auto& log : history.logs)
    if (log.memory_bytes && std::isfinite(*log.memory_bytes))
      most = std::max(most.value_or(0), *log.memory_bytes);
  return most;
}

void set_rates(RunSummary& summary, const RunHistory& history) {
  summary.samples_per_second =
      mean_of(history, [](const auto& log) { return log.samples_per_second; });
  summary.tokens_per_second =
      mean_of(history, [](const auto& log) { return log.tokens_per_second; });
  summary.memory_bytes = most_memory(history);
  summary.step_seconds = mean_step(history);
  if (!summary.samples_per_second && history.end)
    summary.samples_per_second = metric_at(history.end->metrics, "train_samples_per_second");
  if (!history.logs.empty()) summary.loss = history.logs.back().loss;
}

// --- the best

// Returns the metric and step whose value equals `value`, which the source calls the best.
std::optional<BestMetric> best_by_value(const RunHistory& history, double value) {
  for (const auto& evaluation : history.evaluations)
    for (const auto& [name, found] : evaluation.metrics)
      if (found == value) return BestMetric{name, value, evaluation.step, evaluation.epoch};
  return std::nullopt;
}

bool is_evaluated(const RunHistory& history, std::string_view name) {
  return std::ranges::any_of(history.evaluations, [&](const auto& evaluation) {
    return metric_at(evaluation.metrics, name).has_value();
  });
}

// Returns the name of the metric by which checkpoints are compared; "" if nothing was evaluated.
std::string best_name(const RunHistory& history) {
  if (const auto named = run_argument(history, "metric_for_best_model"); named && !named->empty())
    return named->starts_with("eval_") ? *named : "eval_" + *named;
  if (is_evaluated(history, "eval_loss")) return "eval_loss";
  for (const auto& evaluation : history.evaluations)
    if (!evaluation.metrics.empty()) return evaluation.metrics.front().first;
  return "";
}

bool is_greater_better(const RunHistory& history, const std::string& name) {
  if (const auto said = run_argument(history, "greater_is_better")) return lower(*said) == "true";
  return !name.ends_with("loss");
}

std::optional<BestMetric> best_by_search(const RunHistory& history) {
  const std::string name = best_name(history);
  const bool greater = is_greater_better(history, name);
  std::optional<BestMetric> best;
  for (const auto& evaluation : history.evaluations) {
    const auto value = metric_at(evaluation.metrics, name);
    if (!value || std::isnan(*value)) continue;
    if (!best || (greater ? *value > best->value : *value < best->value))
      best = BestMetric{name, *value, evaluation.step, evaluation.epoch};
  }
  return best;
}

}  // namespace

std::optional<std::string> run_argument(const RunHistory& history, std::string_view name) {
  const Node* node = history.begin ? history.begin->arguments.find(name) : nullptr;
  if (!node || !node->is_scalar()) return std::nullopt;
  return node->text;
}

RunSummary summarise_run(const RunHistory& history, std::optional<double> now) {
  RunSummary summary;
  set_status(summary, history, now);
  summary.seconds = total_seconds(history);
  if (!summary.seconds && history.end)
    summary.seconds = metric_at(history.end->metrics, "train_runtime");
  set_progress(summary, history);
  set_rates(summary, history);
  if (history.best_value) summary.best = best_by_value(history, *history.best_value);
  if (!summary.best) summary.best = best_by_search(history);
  return summary;
}

}  // namespace accelerate
