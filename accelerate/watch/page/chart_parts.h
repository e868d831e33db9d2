// What line charts and stacked charts of a page have in common.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/watch/run_log/axis.h"
#include "accelerate/watch/run_log/series.h"

namespace accelerate::detail {

// What a chart of a page shows.

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

/// The size of a chart's SVG, in the SVG's own units.
inline constexpr double kPlaneWidth = 1000, kPlaneHeight = 400;
/// The number of colours: the CSS classes s1, s2, ….
inline constexpr std::size_t kChartColours = 6;

/// An entry of the legend: a CSS class for the colour, a name, a value, and the name that the
/// read-out below the pointer uses.
struct LegendEntry {
  std::string colour;
  std::string name;
  std::string value;
  std::string read_name;
};

/// A chart that is being drawn.
struct ChartFrame {
  const Chart& chart;
  AxisRange x;
  AxisRange y;
  std::string shapes;  ///< SVG elements.
  std::string aria;    ///< What a screen reader says.
  std::vector<LegendEntry> legend;
  std::vector<ChartSeries> shown;  ///< The points that the read-out names, series by series.
};

/// Returns the CSS class of a series' colour: "s1" for the first series.
[[nodiscard]] std::string colour_class(std::size_t series);

/// Appends the position of a point in the SVG, such as "12.3 45.6".
void append_place(std::string& path, const ChartFrame& frame, ChartPoint point);

/// Appends a number with one decimal.
void append_coordinate(std::string& path, double value);

/// Returns <path class="…" d="…"/>; "" for an empty path.
[[nodiscard]] std::string path_element(std::string_view css_class, const std::string& path);

/// Returns the whole <figure>.
[[nodiscard]] std::string chart_figure(const ChartFrame& frame);

// Draws charts of a page: an SVG that stretches with the page, and labels beside it that do not.

/// Returns the chart as a <figure> with all curves in one plane; "" when no series has a point. A
/// value that is not finite leaves a gap with a mark. Every series is thinned to 1,500 points.
[[nodiscard]] std::string line_chart(const Chart& chart);

/// Like line_chart, but draws the series as areas stacked on each other. All series must have
/// points at the same x, with values that are finite and not negative. Neighbouring points are
/// replaced by their mean.
[[nodiscard]] std::string stacked_chart(const Chart& chart);

}  // namespace accelerate::detail
