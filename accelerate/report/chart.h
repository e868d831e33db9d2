// Charts of a page: an SVG that stretches, and labels beside it that do not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accelerate/report/axis.h"
#include "accelerate/report/series.h"

namespace accelerate::detail {

/// A checkpoint on the horizontal axis.
struct ChartMark {
  double x = 0;
  bool best = false;
};

struct Chart {
  std::string title;
  std::string unit = {};        ///< Of the values; "" for none.
  std::string x_name = "step";  ///< What the horizontal axis counts.
  std::vector<ChartSeries> series = {};
  std::vector<ChartMark> marks = {};
  std::optional<AxisRange> x_range = {};  ///< From the points when absent.
};

/// The chart as a <figure>, its curves one above the other; "" where no series has a point. Values
/// that are no finite numbers leave a gap with a mark. Every series is thinned to 1,500 points.
[[nodiscard]] std::string line_chart(const Chart& chart);

/// As line_chart, with areas upon each other. All series have points at the same places, their
/// values finite and not negative; neighbours become their mean.
[[nodiscard]] std::string stacked_chart(const Chart& chart);

}  // namespace accelerate::detail
