#include "accelerate/watch/trackers/general_tracker.h"

#include <string_view>

#include "accelerate/base/logger.h"

namespace accelerate {
namespace {

void warn_not_kept(const std::string& tracker, std::string_view what) {
  get_logger("accelerate.tracking")
      .warning_once("the tracker '" + tracker + "' keeps no " + std::string(what) +
                    "; what was logged to it is left out");
}

}  // namespace

void GeneralTracker::log_images(const TrackerImages&, std::optional<std::int64_t>) {
  warn_not_kept(name(), "images");
}

void GeneralTracker::log_table(const std::string&, const TrackerTable&,
                               std::optional<std::int64_t>) {
  warn_not_kept(name(), "tables");
}

}  // namespace accelerate
