// What a run tells an MLflow server, as lines of JSON. Each line fits into one request, within the
// limits of the server. The spool holds these lines, and they are sent.
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
  static constexpr std::size_t kMetrics = 1000;          // Per request.
  static constexpr std::size_t kParamsOrTags = 100;      // Per request.
  static constexpr std::size_t kRequestBytes = 900'000;  // 1,000,000 are allowed.
  static constexpr std::size_t kKey = 250;
  static constexpr std::size_t kParam = 6000;
  static constexpr std::size_t kTag = 8000;
};

/// What a run is made from.
struct MlflowRun {
  /// Random; finds the run again if the answer was lost.
  std::string spool_id = {};
  std::string experiment = {};   ///< Its name.
  std::string run_name = {};     ///< "": the server chooses one.
  std::string run_id = {};       ///< The run to continue; "" for a new run.
  std::string description = {};  ///< "" for none.
  TrackerConfig tags = {};       ///< Plain values.
  std::int64_t start_time_ms = 0;
};

/// Returns the first line of a spool.
[[nodiscard]] std::string run_line(const MlflowRun& run, const std::string& server);
/// Returns one line per 1000 metrics. Scalars become <name>/<part>. Texts and histograms are left
/// out, with one warning. Characters that the server refuses in a name become '_'.
[[nodiscard]] std::vector<std::string> metric_lines(const TrackerValues& values, std::int64_t step,
                                                    std::int64_t time_ms);
/// Returns one line per 100 parameters. Values beyond the limit are cut, with one warning.
[[nodiscard]] std::vector<std::string> param_lines(const TrackerConfig& config);
/// Returns a line with a file for the run's artifacts.
[[nodiscard]] std::string artifact_line(const std::string& path, const std::string& content);
[[nodiscard]] std::string end_line(std::int64_t time_ms);

/// Returns `name` as the server accepts it: letters, digits, '_', '-', '.', ' ', ':', '/', at most
/// 250 bytes, and no path that leads elsewhere.
[[nodiscard]] std::string mlflow_key(const std::string& name);

}  // namespace accelerate::detail
