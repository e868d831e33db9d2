// What a run log says after all its events: the state that reports and views are made from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/report/run_events.h"

namespace accelerate {

/// One stretch of a run, from a start to its end or to where the program died.
struct RunSegment {
  std::int64_t first_step = 0;
  std::optional<double> begin = {};  ///< Unix seconds.
  std::optional<double> last = {};   ///< Of its last event, Unix seconds.
};

/// The events of a run that hold. Order: of the log.
///
/// A begin event at step s makes what was told of later steps void, for the training does these
/// steps again; at step 0 it makes everything void. Memory is bounded: of more than a million logs
/// every second one is dropped, again and again; of other events the older half.
struct RunHistory {
  std::optional<RunBegin> begin = {};  ///< The newest.
  std::vector<RunSegment> segments = {};
  std::vector<RunLogged> logs = {};
  std::vector<RunEvaluated> evaluations = {};  ///< Those of one step in one, unless names repeat.
  std::vector<RunSaved> saves = {};
  std::vector<RunNote> notes = {};
  std::optional<RunEnd> end = {};
  std::int64_t step = 0;                  ///< The newest step.
  std::optional<double> epoch = {};       ///< The newest epoch.
  std::size_t ignored_lines = 0;          ///< Damaged, too long, or of an unknown event.
  bool is_live = true;                    ///< Whether the source tells when the run ends.
  std::optional<double> best_value = {};  ///< As the source names it; else it is searched.

  void add(RunEvent event);

  /// Whether nothing at all was told.
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
