// Draws charts of a page: an SVG that stretches with the page, and labels beside it that do not.
#pragma once

#include <string>

#include "accelerate/watch/page/chart.h"

namespace accelerate::detail {

/// Returns the chart as a <figure> with all curves in one plane; "" when no series has a point. A
/// value that is not finite leaves a gap with a mark. Every series is thinned to 1,500 points.
[[nodiscard]] std::string line_chart(const Chart& chart);

/// Like line_chart, but draws the series as areas stacked on each other. All series must have
/// points at the same x, with values that are finite and not negative. Neighbouring points are
/// replaced by their mean.
[[nodiscard]] std::string stacked_chart(const Chart& chart);

}  // namespace accelerate::detail
