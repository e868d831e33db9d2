// Curves as points, and fewer points where a chart cannot show more.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "accelerate/report/axis.h"
#include "accelerate/report/run_history.h"

namespace accelerate::detail {

/// `y` may be NaN or infinite: a gap.
struct ChartPoint {
  double x = 0;
  double y = 0;
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  ///< x does not decrease.
};

/// Of the points of each of `columns` columns of `range`: the lowest, the highest and the first
/// gap, in their order. Points that are few anyway come back unchanged.
[[nodiscard]] std::vector<ChartPoint> thin_points(const std::vector<ChartPoint>& points,
                                                  const AxisRange& range, std::size_t columns);

/// One field of all logs that have it, by step.
[[nodiscard]] ChartSeries log_series(const RunHistory& history, std::string name,
                                     std::optional<double> RunLogged::* field);

/// One metric of all evaluations that have it, by step.
[[nodiscard]] ChartSeries metric_series(const RunHistory& history, const std::string& name);

/// One of the further numbers of all logs that have it, by step.
[[nodiscard]] ChartSeries other_series(const RunHistory& history, const std::string& name);

/// Names of all metrics of evaluations, at most `most`: losses first, then the others, then how
/// fast it was; else in the order of their appearance.
[[nodiscard]] std::vector<std::string> metric_names(const RunHistory& history, std::size_t most);

/// Names of the further numbers of logs, at most `most`.
[[nodiscard]] std::vector<std::string> other_names(const RunHistory& history, std::size_t most);

/// Whether a metric is a loss.
[[nodiscard]] bool is_loss(const std::string& name);

/// Whether a metric says how fast an evaluation was, not how good.
[[nodiscard]] bool is_speed(const std::string& name);

}  // namespace accelerate::detail
