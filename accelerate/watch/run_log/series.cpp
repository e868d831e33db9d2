#include "accelerate/watch/run_log/series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

namespace accelerate::detail {
namespace {

constexpr std::size_t kNoPoint = static_cast<std::size_t>(-1);

// The points that are kept of one column, as indices.
struct KeptPoints {
  std::size_t lowest = kNoPoint;
  std::size_t highest = kNoPoint;
  std::size_t gap = kNoPoint;

  void add(const std::vector<ChartPoint>& points, std::size_t i) {
    const double y = points[i].y;
    if (!std::isfinite(y)) {
      if (gap == kNoPoint) gap = i;
      return;
    }
    if (lowest == kNoPoint || y < points[lowest].y) lowest = i;
    if (highest == kNoPoint || y > points[highest].y) highest = i;
  }

  void flush(const std::vector<ChartPoint>& points, std::vector<ChartPoint>& out) {
    std::array<std::size_t, 3> order = {lowest, highest, gap};
    std::ranges::sort(order);
    for (std::size_t k = 0; k < order.size(); ++k)
      if (order[k] != kNoPoint && (k == 0 || order[k] != order[k - 1]))
        out.push_back(points[order[k]]);
    *this = {};
  }
};

void sort_by_x(std::vector<ChartPoint>& points) {
  if (!std::ranges::is_sorted(points, {}, &ChartPoint::x))
    std::ranges::stable_sort(points, {}, &ChartPoint::x);
}

template <typename Events, typename Value>
ChartSeries series_of(const Events& events, std::string name, Value value) {
  ChartSeries series{std::move(name), {}};
  series.points.reserve(events.size());
  for (const auto& event : events)
    if (const std::optional<double> y = value(event))
      series.points.push_back({static_cast<double>(event.step), *y});
  sort_by_x(series.points);
  return series;
}

std::optional<double> value_of(const RunMetrics& metrics, const std::string& name) {
  for (const auto& metric : metrics)
    if (metric.first == name) return metric.second;
  return std::nullopt;
}

void add_names(const RunMetrics& metrics, std::set<std::string>& known,
               std::vector<std::string>& names, std::size_t most) {
  for (const auto& metric : metrics)
    if (known.size() < most && known.insert(metric.first).second) names.push_back(metric.first);
}

int rank_of_metric(const std::string& name) {
  if (is_loss(name)) return name == "eval_loss" ? 0 : 1;
  return is_speed(name) ? 3 : 2;
}

}  // namespace

std::vector<ChartPoint> thin_points(const std::vector<ChartPoint>& points, const AxisRange& range,
                                    std::size_t columns) {
  if (points.size() <= 2 * columns) return points;
  std::vector<ChartPoint> kept;
  KeptPoints column;
  double current = -1;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double place = std::floor(range.place(points[i].x) * static_cast<double>(columns));
    if (place != current) column.flush(points, kept);
    current = place;
    column.add(points, i);
  }
  column.flush(points, kept);
  return kept;
}

ChartSeries log_series(const RunHistory& history, std::string name,
                       std::optional<double> RunLogged::* field) {
  return series_of(history.logs, std::move(name), [field](const auto& log) { return log.*field; });
}

ChartSeries metric_series(const RunHistory& history, const std::string& name) {
  return series_of(history.evaluations, name,
                   [&](const auto& event) { return value_of(event.metrics, name); });
}

ChartSeries other_series(const RunHistory& history, const std::string& name) {
  return series_of(history.logs, name, [&](const auto& log) { return value_of(log.others, name); });
}

std::vector<std::string> metric_names(const RunHistory& history, std::size_t most) {
  std::set<std::string> known;
  std::vector<std::string> names;
  for (const auto& event : history.evaluations) add_names(event.metrics, known, names, most);
  std::ranges::stable_sort(names, {}, rank_of_metric);
  return names;
}

std::vector<std::string> other_names(const RunHistory& history, std::size_t most) {
  std::set<std::string> known;
  std::vector<std::string> names;
  for (const auto& log : history.logs) add_names(log.others, known, names, most);
  return names;
}

bool is_loss(const std::string& name) {
  return name.ends_with("loss");
}

bool is_speed(const std::string& name) {
  return name.ends_with("_runtime") || name.ends_with("_per_second") ||
         name.ends_with("_model_preparation_time");
}

}  // namespace accelerate::detail
