#include "accelerate/watch/trackers/built_in.h"

#include "accelerate/watch/trackers/csv_tracker.h"
#include "accelerate/watch/trackers/json_lines_tracker.h"
#include "accelerate/watch/trackers/mlflow_tracker.h"
#include "accelerate/watch/trackers/tensorboard_tracker.h"

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
