// What line charts and stacked charts of a page have in common.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "accelerate/report/chart.h"

namespace accelerate::detail {

/// The plane of a chart's SVG, in its own units.
inline constexpr double kPlaneWidth = 1000, kPlaneHeight = 400;
/// As many colours there are: the classes s1, s2, ….
inline constexpr std::size_t kChartColours = 6;

/// A legend's entry: a colour's class, a name, a value, and what the read-out calls it.
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

/// "s1" for the first series.
[[nodiscard]] std::string colour_class(std::size_t series);

/// Appends "12.3 45.6": the place of a point on the plane.
void append_place(std::string& path, const ChartFrame& frame, ChartPoint point);

/// Appends a number with one decimal.
void append_coordinate(std::string& path, double value);

/// <path class="…" d="…"/>; "" for an empty path.
[[nodiscard]] std::string path_element(std::string_view css_class, const std::string& path);

/// The whole <figure>.
[[nodiscard]] std::string chart_figure(const ChartFrame& frame);

}  // namespace accelerate::detail
