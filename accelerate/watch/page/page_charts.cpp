#include <algorithm>
#include <array>
#include <utility>

#include "accelerate/watch/page/chart_parts.h"
#include "accelerate/watch/page/page_parts.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kMostMetricCharts = 24;
constexpr std::size_t kMostOtherCharts = 12;
constexpr std::size_t kMostLosses = 6;

std::vector<ChartMark> checkpoint_marks(const RunHistory& history) {
  std::vector<ChartMark> marks;
  const RunSaved* best = best_save(history);
  for (const auto& save : history.saves)
    marks.push_back({static_cast<double>(save.step), &save == best});
  return marks;
}

// Returns the steps that every chart over steps spans.
AxisRange step_range(const RunHistory& history) {
  AxisExtent extent;
  for (const auto& log : history.logs) extent.add(static_cast<double>(log.step));
  for (const auto& event : history.evaluations) extent.add(static_cast<double>(event.step));
  for (const auto& save : history.saves) extent.add(static_cast<double>(save.step));
  return extent.exact();
}

class ChartList {
 public:
  explicit ChartList(const RunHistory& history)
      : history_(history), marks_(checkpoint_marks(history)), range_(step_range(history)) {}

  void add(std::string title, std::vector<ChartSeries> series, std::string unit = "") {
    html_ += line_chart(chart_of(std::move(title), std::move(series), std::move(unit)));
  }
  void add_stacked(std::string title, std::vector<ChartSeries> series, std::string unit) {
    html_ += stacked_chart(chart_of(std::move(title), std::move(series), std::move(unit)));
  }
  void add(const Chart& chart) { html_ += line_chart(chart); }
  void add_field(std::string title, std::optional<double> RunLogged::* field,
                 std::string unit = "") {
    auto series = log_series(history_, title, field);
    add(std::move(title), {std::move(series)}, std::move(unit));
  }

  [[nodiscard]] const std::string& html() const { return html_; }

 private:
  Chart chart_of(std::string title, std::vector<ChartSeries> series, std::string unit) {
    Chart chart{.title = std::move(title), .unit = std::move(unit), .series = std::move(series)};
    chart.marks = marks_;
    chart.x_range = range_;
    return chart;
  }

  const RunHistory& history_;
  std::vector<ChartMark> marks_;
  AxisRange range_;
  std::string html_;
};

void add_losses(ChartList& charts, const RunHistory& history,
                const std::vector<std::string>& metrics) {
  std::vector<ChartSeries> series = {log_series(history, "loss", &RunLogged::loss)};
  for (const auto& name : metrics)
    if (is_loss(name) && series.size() < kMostLosses)
      series.push_back(metric_series(history, name));
  charts.add("Loss", std::move(series));
}

ChartSeries scaled(ChartSeries series, double factor) {
  for (auto& point : series.points) point.y *= factor;
  return series;
}

void add_step_split(ChartList& charts, const RunHistory& history) {
  std::vector<ChartSeries> parts(kStepParts);
  for (std::size_t i = 0; i < kStepParts; ++i) parts[i].name = StepSeconds::kNames[i];
  for (const auto& log : history.logs) {
    if (!log.step_seconds) continue;
    const auto seconds = log.step_seconds->parts();
    for (std::size_t i = 0; i < kStepParts; ++i)
      parts[i].points.push_back({static_cast<double>(log.step), seconds[i] * 1000});
  }
  for (auto& part : parts) std::ranges::stable_sort(part.points, {}, &ChartPoint::x);
  charts.add_stacked("Step time", std::move(parts), "ms a step");
}

// --- steps over time

struct TimeUnit {
  double seconds;
  const char* name;
};

TimeUnit time_unit_of(double longest) {
  constexpr std::array kUnits = {TimeUnit{86400, "days"}, TimeUnit{3600, "hours"},
                                 TimeUnit{60, "minutes"}};
  for (const auto& unit : kUnits)
    if (longest >= 2 * unit.seconds) return unit;
  return {1, "seconds"};
}

// Returns steps over seconds since the first event.
ChartSeries steps_over_time(const RunHistory& history, double start) {
  ChartSeries series{"step", {}};
  for (const auto& segment : history.segments)
    if (segment.begin)
      series.points.push_back({*segment.begin - start, static_cast<double>(segment.first_step)});
  for (const auto& log : history.logs)
    if (log.time) series.points.push_back({*log.time - start, static_cast<double>(log.step)});
  if (history.end && history.end->time)
    series.points.push_back({*history.end->time - start, static_cast<double>(history.end->step)});
  std::ranges::stable_sort(series.points, {}, &ChartPoint::x);
  return series;
}

void add_progress(ChartList& charts, const RunHistory& history) {
  if (history.segments.empty() || !history.segments.front().begin) return;
  const double start = *history.segments.front().begin;
  auto series = steps_over_time(history, start);
  if (series.points.size() < 2) return;
  const TimeUnit unit = time_unit_of(series.points.back().x);
  for (auto& point : series.points) point.x /= unit.seconds;
  Chart chart{
      .title = "Progress", .unit = "steps", .x_name = unit.name, .series = {std::move(series)}};
  const RunSaved* best = best_save(history);
  for (const auto& save : history.saves)
    if (save.time) chart.marks.push_back({(*save.time - start) / unit.seconds, &save == best});
  charts.add(chart);
}

void add_metrics(ChartList& charts, const RunHistory& history,
                 const std::vector<std::string>& metrics) {
  for (const auto& name : metrics)
    if (!is_loss(name) && !is_speed(name)) charts.add(name, {metric_series(history, name)});
}

}  // namespace

std::string page_charts(const RunHistory& history) {
  constexpr double kGigabyte = 1.0 / (1 << 30);
  const auto metrics = metric_names(history, kMostMetricCharts);
  ChartList charts(history);
  add_losses(charts, history, metrics);
  add_metrics(charts, history, metrics);
  charts.add_field("Learning rate", &RunLogged::learning_rate);
  charts.add_field("Gradient norm", &RunLogged::grad_norm);
  charts.add_field("Throughput", &RunLogged::samples_per_second, "samples a second");
  charts.add_field("Tokens", &RunLogged::tokens_per_second, "tokens a second");
  add_step_split(charts, history);
  charts.add("Memory", {scaled(log_series(history, "peak", &RunLogged::memory_bytes), kGigabyte)},
             "GB");
  add_progress(charts, history);
  for (const auto& name : other_names(history, kMostOtherCharts))
    charts.add(name, {other_series(history, name)});
  return charts.html();
}

}  // namespace accelerate::detail
