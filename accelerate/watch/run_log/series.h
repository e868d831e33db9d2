// Curves as points, thinned where a chart cannot show all of them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "accelerate/watch/run_log/axis.h"
#include "accelerate/watch/run_log/run_history.h"

namespace accelerate::detail {

/// A NaN or infinite `y` is a gap.
struct ChartPoint {
  double x = 0;
  double y = 0;
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  ///< x does not decrease.
};

/// Divides `range` into `columns` columns and keeps the lowest point, the highest point and the
/// first gap of each, in their order. At most 2 * `columns` points are returned unchanged.
[[nodiscard]] std::vector<ChartPoint> thin_points(const std::vector<ChartPoint>& points,
                                                  const AxisRange& range, std::size_t columns);

/// Returns one field of all logs that have it, by step.
[[nodiscard]] ChartSeries log_series(const RunHistory& history, std::string name,
                                     std::optional<double> RunLogged::* field);

/// Returns one metric of all evaluations that have it, by step.
[[nodiscard]] ChartSeries metric_series(const RunHistory& history, const std::string& name);

/// Returns one of the further numbers of all logs that have it, by step.
[[nodiscard]] ChartSeries other_series(const RunHistory& history, const std::string& name);

/// Returns the names of at most `most` evaluation metrics: losses first, then other metrics, then
/// measures of speed. Otherwise they stay in the order of their appearance.
[[nodiscard]] std::vector<std::string> metric_names(const RunHistory& history, std::size_t most);

/// Returns at most `most` names of the further numbers in logs.
[[nodiscard]] std::vector<std::string> other_names(const RunHistory& history, std::size_t most);

/// Whether a metric is a loss.
[[nodiscard]] bool is_loss(const std::string& name);

/// Whether a metric measures the speed of an evaluation rather than its quality.
[[nodiscard]] bool is_speed(const std::string& name);

}  // namespace accelerate::detail
