// The state of a run after all events of its log: the source of reports and views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/watch/run_log/run_events.h"

namespace accelerate {

/// One stretch of a run, from a start to its end or to where the program died.
struct RunSegment {
  std::int64_t first_step = 0;
  std::optional<double> begin = {};  ///< Unix seconds.
  std::optional<double> last = {};   ///< Time of its last event, in Unix seconds.
};

/// The valid events of a run, in the order of the log.
///
/// A begin event at step s makes the events of later steps void, because the training repeats these
/// steps; at step 0 it makes all events void. Memory is bounded: each time there are a million
/// logs, every second one is dropped. Of other events, the older half is dropped.
struct RunHistory {
  std::optional<RunBegin> begin = {};  ///< The newest.
  std::vector<RunSegment> segments = {};
  std::vector<RunLogged> logs = {};
  std::vector<RunEvaluated> evaluations = {};  ///< Merged by step, unless names repeat.
  std::vector<RunSaved> saves = {};
  std::vector<RunNote> notes = {};
  std::optional<RunEnd> end = {};
  std::int64_t step = 0;                  ///< The newest step.
  std::optional<double> epoch = {};       ///< The newest epoch.
  std::size_t ignored_lines = 0;          ///< Lines that were damaged, too long or unknown.
  bool is_live = true;                    ///< Whether the source says when the run ends.
  std::optional<double> best_value = {};  ///< The best metric, if the source names it.

  void add(RunEvent event);

  /// Whether there are no events at all.
  [[nodiscard]] bool empty() const;

 private:
  void apply(RunBegin event);
  void apply(RunLogged event);
  void apply(RunEvaluated event);
  void apply(RunSaved event);
  void apply(RunNote event);
  void apply(RunEnd event);
  void forget_after(std::int64_t step);
};

}  // namespace accelerate
