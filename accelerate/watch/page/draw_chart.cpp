#include "accelerate/watch/page/chart_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "accelerate/watch/run_log/display_text.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kCurveColumns = 500;
constexpr std::size_t kStackColumns = 200;
constexpr std::size_t kFewPoints = 40;  // Series of at most this many points get dots too.

AxisRange x_range_of(const Chart& chart) {
  if (chart.x_range) return *chart.x_range;
  AxisExtent extent;
  for (const auto& series : chart.series)
    for (const auto& point : series.points) extent.add(point.x);
  return extent.exact();
}

AxisRange y_range_of(const std::vector<ChartSeries>& all) {
  AxisExtent extent;
  for (const auto& series : all)
    for (const auto& point : series.points) extent.add(point.y);
  return extent.padded();
}

// --- curves

// A curve, interrupted where a value is not finite.
std::string curve_path(const ChartFrame& frame, const std::vector<ChartPoint>& points) {
  std::string path;
  bool drawing = false;
  for (const auto& point : points) {
    const bool finite = std::isfinite(point.y);
    if (finite) {
      path += drawing ? "L" : "M";
      append_place(path, frame, point);
      if (!drawing) path += "h0";  // Draws a lone point as a dot.
    }
    drawing = finite;
  }
  return path;
}

std::string dots_path(const ChartFrame& frame, const std::vector<ChartPoint>& points) {
  std::string path;
  for (const auto& point : points) {
    if (!std::isfinite(point.y)) continue;
    path += "M";
    append_place(path, frame, point);
    path += "h0";
  }
  return path;
}

std::string gaps_path(const ChartFrame& frame) {
  std::string path;
  for (const auto& series : frame.shown)
    for (const auto& point : series.points) {
      if (std::isfinite(point.y)) continue;
      path += "M";
      append_coordinate(path, frame.x.place(point.x) * kPlaneWidth);
      path += " 0V24";
    }
  return path;
}

std::size_t count_gaps(const std::vector<ChartSeries>& all) {
  std::size_t gaps = 0;
  for (const auto& series : all)
    gaps += static_cast<std::size_t>(std::ranges::count_if(
        series.points, [](const auto& point) { return !std::isfinite(point.y); }));
  return gaps;
}

std::string spoken_series(const ChartSeries& series, const std::string& x_name) {
  const auto& first = series.points.front();
  const auto& last = series.points.back();
  return series.name + ": " + number_text(first.y) + " at " + x_name + " " + number_text(first.x) +
         ", " + number_text(last.y) + " at " + x_name + " " + number_text(last.x) + ". ";
}

void add_curve(ChartFrame& frame, const ChartSeries& series) {
  const std::string colour = colour_class(frame.shown.size());
  auto points = thin_points(series.points, frame.x, kCurveColumns);
  frame.shapes += path_element("line " + colour, curve_path(frame, points));
  if (points.size() <= kFewPoints)
    frame.shapes += path_element("dots " + colour, dots_path(frame, points));
  const bool alone = frame.chart.series.size() == 1;  // The title names it in this case.
  frame.legend.push_back(
      {colour, alone ? "newest" : series.name, number_text(series.points.back().y), series.name});
  frame.aria += spoken_series(series, frame.chart.x_name);
  frame.shown.push_back({series.name, std::move(points)});
}

void add_gaps(ChartFrame& frame) {
  const std::size_t gaps = count_gaps(frame.chart.series);
  if (gaps == 0) return;
  frame.shapes += path_element("gap", gaps_path(frame));
  frame.legend.push_back({"gap", "not a finite number", std::to_string(gaps) + "×", ""});
  frame.aria += std::to_string(gaps) + " values are not finite. ";
}

// --- areas

// Returns the mean of the points of each column.
std::vector<ChartPoint> mean_points(const std::vector<ChartPoint>& points, const AxisRange& range) {
  std::vector<ChartPoint> means;
  double current = -1, count = 0;
  for (const auto& point : points) {
    const double column = std::floor(range.place(point.x) * static_cast<double>(kStackColumns));
    if (column != current || means.empty()) {
      means.push_back({point.x, 0});
      count = 0;
    }
    current = column;
    count += 1;
    means.back().x += (point.x - means.back().x) / count;
    means.back().y += (point.y - means.back().y) / count;
  }
  return means;
}

std::vector<ChartSeries> mean_series(const Chart& chart, const AxisRange& x) {
  std::vector<ChartSeries> means;
  for (const auto& series : chart.series)
    means.push_back({series.name, mean_points(series.points, x)});
  return means;
}

// Returns the upper edge of each area.
std::vector<ChartSeries> edges_of(const std::vector<ChartSeries>& parts) {
  std::vector<ChartSeries> edges = parts;
  for (std::size_t k = 1; k < edges.size(); ++k)
    for (std::size_t i = 0; i < edges[k].points.size(); ++i)
      edges[k].points[i].y += edges[k - 1].points[i].y;
  return edges;
}

// Turns a single point into an area of the whole width.
std::vector<ChartPoint> widened(const std::vector<ChartPoint>& points, const AxisRange& x) {
  if (points.size() > 1) return points;
  return {{x.low, points.front().y}, {x.high, points.front().y}};
}

std::string area_path(const ChartFrame& frame, const std::vector<ChartPoint>& upper,
                      const std::vector<ChartPoint>& lower) {
  std::string path = "M";
  for (const auto& point : widened(upper, frame.x)) {
    append_place(path, frame, point);
    path += "L";
  }
  auto back = widened(lower, frame.x);
  std::ranges::reverse(back);
  for (const auto& point : back) {
    append_place(path, frame, point);
    path += &point == &back.back() ? "Z" : "L";
  }
  return path;
}

double mean_value(const ChartSeries& series) {
  double sum = 0;
  for (const auto& point : series.points) sum += point.y;
  return sum / static_cast<double>(series.points.size());
}

void add_area(ChartFrame& frame, const std::vector<ChartSeries>& edges, std::size_t k) {
  const std::string colour = colour_class(k);
  auto lower = k > 0 ? edges[k - 1].points : edges[0].points;
  if (k == 0)
    for (auto& point : lower) point.y = 0;
  frame.shapes += path_element("area " + colour, area_path(frame, edges[k].points, lower));
  const ChartSeries& whole = frame.chart.series[k];
  const std::string mean = number_text(mean_value(whole));
  frame.legend.push_back({colour, whole.name, mean, whole.name});
  frame.aria += whole.name + ": mean " + mean + ". ";
}

}  // namespace

std::string line_chart(const Chart& chart) {
  const bool empty =
      std::ranges::all_of(chart.series, [](const auto& s) { return s.points.empty(); });
  if (empty) return "";
  ChartFrame frame{chart, x_range_of(chart), y_range_of(chart.series), "", chart.title + ". ", {},
                   {}};
  for (const auto& series : chart.series)
    if (!series.points.empty()) add_curve(frame, series);
  add_gaps(frame);
  return chart_figure(frame);
}

std::string stacked_chart(const Chart& chart) {
  if (chart.series.empty() || chart.series.front().points.empty()) return "";
  const AxisRange x = x_range_of(chart);
  auto parts = mean_series(chart, x);
  const auto edges = edges_of(parts);
  AxisExtent extent;
  extent.add(0);
  for (const auto& point : edges.back().points) extent.add(point.y);
  ChartFrame frame{chart, x, extent.padded(), "", chart.title + ". ", {}, std::move(parts)};
  for (std::size_t k = 0; k < edges.size(); ++k) add_area(frame, edges, k);
  return chart_figure(frame);
}

}  // namespace accelerate::detail
