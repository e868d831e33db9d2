#include "accelerate/watch/page/chart_parts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <set>

#include "accelerate/watch/run_log/display_text.h"

namespace accelerate::detail {
namespace {

constexpr int kValueTicks = 4, kStepTicks = 5;

std::string percent_of(double place) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f%%", place * 100);
  return text.data();
}

std::string grid_path(const ChartFrame& frame, const std::vector<AxisTick>& ticks) {
  std::string path;
  for (const auto& tick : ticks) {
    path += "M0 ";
    append_coordinate(path, (1 - frame.y.place(tick.value)) * kPlaneHeight);
    path += "H1000";
  }
  return path;
}

// Draws only one of several marks that would cover each other.
std::string marks_path(const ChartFrame& frame, bool best) {
  constexpr double kApart = 4;
  std::set<long> taken;
  std::string path;
  for (const auto& mark : frame.chart.marks) {
    const double place = frame.x.place(mark.x);
    if (mark.best != best || place < 0 || place > 1) continue;
    if (!taken.insert(std::lround(place * kPlaneWidth / kApart)).second) continue;
    path += "M";
    append_coordinate(path, place * kPlaneWidth);
    path += best ? " 0V400" : " 400V382";
  }
  return path;
}

// Returns a style attribute with the width in pixels of the value labels; "" for the default width.
std::string gutter_style(const std::vector<AxisTick>& ticks) {
  constexpr std::size_t kLeast = 46, kOfCharacter = 8;
  std::size_t widest = kLeast;
  for (const auto& tick : ticks) widest = std::max(widest, tick.label.size() * kOfCharacter);
  return widest == kLeast ? "" : " style=\"--gutter:" + std::to_string(widest) + "px\"";
}

std::string value_labels(const ChartFrame& frame, const std::vector<AxisTick>& ticks) {
  std::string html = "<div class=\"ys\" aria-hidden=\"true\">";
  for (const auto& tick : ticks)
    html += "<span style=\"top:" + percent_of(1 - frame.y.place(tick.value)) + "\">" + tick.label +
            "</span>";
  return html + "</div>\n";
}

std::string step_labels(const ChartFrame& frame) {
  std::string html = "<div class=\"xs\" aria-hidden=\"true\">";
  for (const auto& tick : axis_ticks(frame.x, kStepTicks)) {
    const double place = frame.x.place(tick.value);
    const char* edge = place < 0.04 ? " class=\"first\"" : place > 0.96 ? " class=\"last\"" : "";
    html += std::string("<span") + edge + " style=\"left:" + percent_of(place) + "\">" +
            tick.label + "</span>";
  }
  return html + "</div>\n";
}

std::string legend_item(const LegendEntry& entry) {
  return "<li class=\"" + entry.colour + "\"><span data-name=\"" + html_text(entry.read_name, 80) +
         "\">" + html_text(entry.name, 80) + "</span> <b>" + html_text(entry.value, 80) +
         "</b></li>";
}

std::string legend_html(const ChartFrame& frame) {
  std::string html = "<ul class=\"legend\">";
  for (const auto& entry : frame.legend) html += legend_item(entry);
  return html + "</ul>";
}

void append_number(std::string& out, double value) {
  std::array<char, 32> text{};
  if (!std::isfinite(value)) {
    out += "&quot;" + number_text(value) + "&quot;";
    return;
  }
  const bool whole = std::abs(value) < 1e15 && value == std::floor(value);
  const auto end =
      whole ? std::to_chars(text.data(), text.data() + text.size(), static_cast<long long>(value))
            : std::to_chars(text.data(), text.data() + text.size(), value,
                            std::chars_format::general, 6);
  out.append(text.data(), end.ptr);
}

std::string range_json(const AxisRange& range) {
  std::string json = "[";
  append_number(json, range.low);
  json += ",";
  append_number(json, range.high);
  return json + "]";
}

void append_numbers(std::string& out, const std::vector<ChartPoint>& points,
                    double ChartPoint::* field) {
  out += "[";
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i > 0) out += ",";
    append_number(out, points[i].*field);
  }
  out += "]";
}

// Returns [[[x, …], [y, …]], …] for the script, as the value of an attribute.
std::string points_json(const ChartFrame& frame) {
  std::string json = "[";
  for (std::size_t i = 0; i < frame.shown.size(); ++i) {
    json += i > 0 ? ",[" : "[";
    append_numbers(json, frame.shown[i].points, &ChartPoint::x);
    json += ",";
    append_numbers(json, frame.shown[i].points, &ChartPoint::y);
    json += "]";
  }
  return json + "]";
}

std::string heading_html(const Chart& chart) {
  const std::string unit =
      chart.unit.empty() ? "" : " <small>" + html_text(chart.unit) + "</small>";
  return "<h3>" + html_text(chart.title, 80) + unit + "</h3>";
}

std::string plane_html(const ChartFrame& frame, const std::vector<AxisTick>& ticks) {
  return "<svg viewBox=\"0 0 1000 400\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"" +
         html_text(frame.aria) + "\">" + path_element("grid", grid_path(frame, ticks)) +
         frame.shapes + path_element("saved", marks_path(frame, false)) +
         path_element("best", marks_path(frame, true)) + "</svg>\n";
}

}  // namespace

std::string colour_class(std::size_t series) {
  return "s" + std::to_string(series % kChartColours + 1);
}

void append_coordinate(std::string& path, double value) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, 1);
  path.append(text.data(), end.ptr);
}

void append_place(std::string& path, const ChartFrame& frame, ChartPoint point) {
  append_coordinate(path, frame.x.place(point.x) * kPlaneWidth);
  path += ' ';
  append_coordinate(path, (1 - frame.y.place(point.y)) * kPlaneHeight);
}

std::string path_element(std::string_view css_class, const std::string& path) {
  if (path.empty()) return "";
  return "<path class=\"" + std::string(css_class) + "\" d=\"" + path + "\"/>";
}

std::string chart_figure(const ChartFrame& frame) {
  const auto ticks = axis_ticks(frame.y, kValueTicks);
  const std::string x_name = html_text(frame.chart.x_name);
  return "<figure class=\"chart\">\n<figcaption>" + heading_html(frame.chart) + legend_html(frame) +
         "</figcaption>\n<div class=\"plot\"" + gutter_style(ticks) + " data-x=\"" + x_name +
         "\" data-range=\"" + range_json(frame.x) + "\" data-points=\"" + points_json(frame) +
         "\">\n" + value_labels(frame, ticks) + plane_html(frame, ticks) + step_labels(frame) +
         "<p class=\"axis\" aria-hidden=\"true\">" + x_name + "</p></div>\n</figure>\n";
}

}  // namespace accelerate::detail
