// The trackers that come with the library.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "accelerate/tracking/tracker.h"

namespace accelerate::detail {

/// tensorboard, jsonl, csv, mlflow.
[[nodiscard]] std::vector<std::pair<std::string, TrackerClass>> built_in_trackers();

}  // namespace accelerate::detail
