#include "accelerate/watch/trackers/tracker.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/watch/trackers/csv_tracker.h"
#include "accelerate/watch/trackers/json_lines_tracker.h"
#include "accelerate/watch/trackers/mlflow_tracker.h"
#include "accelerate/watch/trackers/tensorboard_tracker.h"

namespace accelerate {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::pair<std::string, TrackerClass>> classes = detail::built_in_trackers();

  [[nodiscard]] const TrackerClass* find(const std::string& name) const {
    const auto found =
        std::ranges::find(classes, name, &std::pair<std::string, TrackerClass>::first);
    return found == classes.end() ? nullptr : &found->second;
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& one : classes) all.push_back(one.first);
    return all;
  }
};

Registry& registry() {
  static Registry instance;
  return instance;
}

// Upstream's other trackers need Python packages.
bool is_python_only(const std::string& name) {
  constexpr std::string_view kNames[] = {"wandb",   "trackio", "comet_ml", "aim",
                                         "clearml", "dvclive", "swanlab"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

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

void register_tracker_class(const std::string& name, TrackerClass tracker_class) {
  const std::lock_guard lock(registry().mutex);
  if (name.empty() || name == "all" || !tracker_class.make) {
    throw UsageError("register_tracker_class was given the name '" + name + "'" +
                     (tracker_class.make ? "" : " and no function that makes a tracker") +
                     "; it needs a name that is not empty and not 'all', and such a function");
  }
  if (registry().find(name) != nullptr) {
    throw UsageError("there is a tracker class called '" + name +
                     "' already; names that are taken: " + join(registry().names(), ", "));
  }
  registry().classes.emplace_back(name, std::move(tracker_class));
}

std::vector<std::string> available_trackers() {
  const std::lock_guard lock(registry().mutex);
  return registry().names();
}

TrackerClass detail::tracker_class(const std::string& name) {
  const std::lock_guard lock(registry().mutex);
  if (const TrackerClass* found = registry().find(name)) return *found;
  std::string cure = did_you_mean(name, registry().names());
  if (is_python_only(name)) {
    cure = " '" + name +
           "' has a client for Python only: derive a tracker from GeneralTracker for it.";
  }
  throw ConfigError("log_with has '" + name + "', which is not a tracker; allowed are " +
                    join(registry().names(), ", ") +
                    ", all, and objects of classes derived from "
                    "GeneralTracker." +
                    cure);
}

}  // namespace accelerate

namespace accelerate::detail {
namespace {

template <typename Tracker>
TrackerClass class_in_folder() {
  return {[](const TrackerSetup& setup) { return std::make_shared<Tracker>(setup); }, true, true};
}

}  // namespace

std::vector<std::pair<std::string, TrackerClass>> built_in_trackers() {
  std::vector<std::pair<std::string, TrackerClass>> all = {
      {"tensorboard", class_in_folder<TensorBoardTracker>()},
      {"jsonl", class_in_folder<JsonLinesTracker>()},
      {"csv", class_in_folder<CsvTracker>()},
  };
  all.emplace_back(
      "mlflow",
      TrackerClass{
          .make = [](const TrackerSetup& setup) { return std::make_shared<MlflowTracker>(setup); },
          .is_in_all = names_mlflow_server});
  return all;
}

}  // namespace accelerate::detail
