// The trackers that come with the library.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "accelerate/watch/trackers/general_tracker.h"

namespace accelerate::detail {

/// Returns tensorboard, jsonl, csv and mlflow.
[[nodiscard]] std::vector<std::pair<std::string, TrackerClass>> built_in_trackers();

}  // namespace accelerate::detail
