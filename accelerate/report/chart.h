// Charts of a page: an SVG that stretches with the page, and labels beside it that do not.
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
  std::string unit = {};        ///< Unit of the values; "" for none.
  std::string x_name = "step";  ///< What the horizontal axis counts.
  std::vector<ChartSeries> series = {};
  std::vector<ChartMark> marks = {};
  std::optional<AxisRange> x_range = {};  ///< Taken from the points when absent.
};

/// Returns the chart as a <figure> with all curves in one plane; "" when no series has a point. A
/// value that is not finite leaves a gap with a mark. Every series is thinned to 1,500 points.
[[nodiscard]] std::string line_chart(const Chart& chart);

/// Like line_chart, but draws the series as areas stacked on each other. All series must have
/// points at the same x, with values that are finite and not negative. Neighbouring points are
/// replaced by their mean.
[[nodiscard]] std::string stacked_chart(const Chart& chart);

}  // namespace accelerate::detail
