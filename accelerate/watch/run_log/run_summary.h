// The figures above the curves: the progress of a run, how it ended, and its best metric.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accelerate/watch/run_log/run_history.h"

namespace accelerate {

enum class RunMood { good, busy, warning, bad };

/// The best value of the metric by which checkpoints are compared.
struct BestMetric {
  std::string name;
  double value = 0;
  std::int64_t step = 0;
  std::optional<double> epoch = {};
};

struct RunSummary {
  std::string status;  ///< "finished", "stopped by SIGTERM", "running".
  RunMood mood = RunMood::busy;
  std::optional<double> seconds = {};           ///< Sum over all segments of the run.
  std::optional<double> fraction = {};          ///< Part of the steps that is done, from 0 to 1.
  std::optional<double> steps_per_second = {};  ///< Rate over the last logs.
  std::optional<BestMetric> best = {};
  std::optional<double> loss = {};                ///< The newest loss.
  std::optional<double> samples_per_second = {};  ///< Mean over the logs.
  std::optional<double> tokens_per_second = {};   ///< Mean over the logs.
  std::optional<double> memory_bytes = {};        ///< Maximum over the logs.
  std::optional<StepSeconds> step_seconds = {};   ///< Mean over the logs.
};

/// Returns the summary of `history`. `now`, in Unix seconds, tells an active run from one that has
/// fallen silent. Without `now` the summary depends on the log alone.
[[nodiscard]] RunSummary summarise_run(const RunHistory& history, std::optional<double> now = {});

/// Returns the text of the scalar argument `name`; nullopt when it is absent or null.
[[nodiscard]] std::optional<std::string> run_argument(const RunHistory& history,
                                                      std::string_view name);

}  // namespace accelerate
