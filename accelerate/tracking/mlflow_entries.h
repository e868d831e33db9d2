// What a run tells an MLflow server, as lines of JSON: each is one request's worth, within the
// limits of the server. They are what the spool holds and what is sent;
// docs/formats/mlflow_spool.md has the layout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/tracking/values.h"

namespace accelerate::detail {

/// Limits of the MLflow REST API (mlflow 3.17, `mlflow/utils/validation.py`).
struct MlflowLimits {
  static constexpr std::size_t kMetrics = 1000;          // In one request.
  static constexpr std::size_t kParamsOrTags = 100;      // In one request.
  static constexpr std::size_t kRequestBytes = 900'000;  // Of 1,000,000 that are allowed.
  static constexpr std::size_t kKey = 250;
  static constexpr std::size_t kParam = 6000;
  static constexpr std::size_t kTag = 8000;
};

/// What a run is made of.
struct MlflowRun {
  std::string spool_id = {};     ///< Random; finds the run again when the answer was lost.
  std::string experiment = {};   ///< Its name.
  std::string run_name = {};     ///< "" lets the server choose.
  std::string run_id = {};       ///< Of a run to go on with; "" for a new one.
  std::string description = {};  ///< "" for none.
  TrackerConfig tags = {};       ///< Plain values.
  std::int64_t start_time_ms = 0;
};

/// The first line of a spool.
[[nodiscard]] std::string run_line(const MlflowRun& run, const std::string& server);
/// One line for each 1000 metrics. Scalars become <name>/<part>; texts and histograms are left out,
/// with one warning. Characters that the server refuses in a name become '_'.
[[nodiscard]] std::vector<std::string> metric_lines(const TrackerValues& values, std::int64_t step,
                                                    std::int64_t time_ms);
/// One line for each 100 parameters; longer values are cut to what is allowed, with one warning.
[[nodiscard]] std::vector<std::string> param_lines(const TrackerConfig& config);
/// A file for the run's artifacts.
[[nodiscard]] std::string artifact_line(const std::string& path, const std::string& content);
[[nodiscard]] std::string end_line(std::int64_t time_ms);

/// A name as the server takes it: letters, digits, '_', '-', '.', ' ', ':', '/', at most 250 bytes,
/// no path that leads elsewhere.
[[nodiscard]] std::string mlflow_key(const std::string& name);

}  // namespace accelerate::detail
