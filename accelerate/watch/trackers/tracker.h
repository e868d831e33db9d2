// The tracker classes that log_with knows by name: ours, and yours once they are registered.
// general_tracker.h says what a tracker is.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "accelerate/watch/trackers/general_tracker.h"

namespace accelerate::detail {

// The trackers that come with the library.

/// Returns tensorboard, jsonl, csv and mlflow.
[[nodiscard]] std::vector<std::pair<std::string, TrackerClass>> built_in_trackers();

}  // namespace accelerate::detail

namespace accelerate {

/// Makes `log_with = {name}` mean a tracker of yours, in this process. Thread-safe. Throws
/// UsageError for an empty name, "all", a name that is taken, and an empty function.
void register_tracker_class(const std::string& name, TrackerClass tracker_class);

/// The names that log_with accepts in this build, ours first, then yours, without "all".
[[nodiscard]] std::vector<std::string> available_trackers();

namespace detail {
/// Returns the class of that name. Throws ConfigError with the nearest name, or with the cure if
/// this build lacks the class.
[[nodiscard]] TrackerClass tracker_class(const std::string& name);
}  // namespace detail

}  // namespace accelerate
