// The figures above the curves: how far a run is, how it ended, what was best.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accelerate/report/run_history.h"

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
  std::optional<double> seconds = {};           ///< Spent in all stretches of the run.
  std::optional<double> fraction = {};          ///< Steps done, within 0 and 1.
  std::optional<double> steps_per_second = {};  ///< Over the last logs.
  std::optional<double> seconds_left = {};      ///< At that rate; only while it runs.
  std::optional<BestMetric> best = {};
  std::optional<double> loss = {};                ///< The newest.
  std::optional<double> samples_per_second = {};  ///< Mean over the logs.
  std::optional<double> tokens_per_second = {};   ///< Mean over the logs.
  std::optional<double> memory_bytes = {};        ///< The most of all logs.
  std::optional<StepSeconds> step_seconds = {};   ///< Mean over the logs.
};

/// What `history` comes to. `now`, Unix seconds, tells a run that goes on from one that fell
/// silent; without it the summary depends on the log alone.
[[nodiscard]] RunSummary summarise_run(const RunHistory& history, std::optional<double> now = {});

/// The scalar argument `name` as its text; nullopt when it is absent or null.
[[nodiscard]] std::optional<std::string> run_argument(const RunHistory& history,
                                                      std::string_view name);

}  // namespace accelerate
