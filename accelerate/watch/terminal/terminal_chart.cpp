#include "accelerate/watch/terminal/terminal_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "accelerate/watch/run_log/display_text.h"

namespace accelerate::detail {
namespace {

constexpr std::string_view kLetters = "*o+x#%";
constexpr std::size_t kMostLabel = 9;

// A plane of dots on a grid of characters: two by four dots a character with braille, else one.
class DotPlane {
 public:
  DotPlane(std::size_t columns, std::size_t rows, bool utf8)
      : columns_(columns),
        rows_(rows),
        across_(utf8 ? 2 : 1),
        down_(utf8 ? 4 : 1),
        utf8_(utf8),
        cells_(columns * rows) {}

  [[nodiscard]] std::size_t width() const { return columns_ * across_; }
  [[nodiscard]] std::size_t height() const { return rows_ * down_; }

  // Sets a dot; x counts from the left, y from the top.
  void set(std::size_t x, std::size_t y, std::size_t series) {
    if (x >= width() || y >= height()) return;
    Cell& cell = cells_[y / down_ * columns_ + x / across_];
    if (cell.series != series) cell = {0, series};
    cell.dots |= static_cast<std::uint8_t>(1U << kBits[x % across_][y % down_]);
  }

  [[nodiscard]] StyledLine row(std::size_t y) const {
    StyledLine line;
    for (std::size_t x = 0; x < columns_; ++x) {
      const Cell& cell = cells_[y * columns_ + x];
      const TextStyle style = cell.dots == 0 ? TextStyle::plain : series_style(cell.series);
      if (line.empty() || line.back().style != style) line.push_back({"", style});
      line.back().text += sign(cell);
    }
    return line;
  }

 private:
  struct Cell {
    std::uint8_t dots = 0;
    std::size_t series = 0;
  };

  // Unicode's order of the dots in U+2800 … U+28FF.
  static constexpr std::array<std::array<int, 4>, 2> kBits = {{{0, 1, 2, 6}, {3, 4, 5, 7}}};

  [[nodiscard]] std::string sign(const Cell& cell) const {
    if (cell.dots == 0) return " ";
    if (!utf8_) return std::string(1, kLetters[cell.series % kLetters.size()]);
    return {'\xE2', static_cast<char>(0xA0 | cell.dots >> 6),
            static_cast<char>(0x80 | (cell.dots & 0x3F))};
  }

  std::size_t columns_, rows_, across_, down_;
  bool utf8_;
  std::vector<Cell> cells_;
};

struct Dot {
  std::int64_t x = 0, y = 0;
};

// Draws all dots between `from` and `to`, both included.
void draw_stroke(DotPlane& plane, Dot from, Dot to, std::size_t series) {
  const std::int64_t steps =
      std::max({std::abs(to.x - from.x), std::abs(to.y - from.y), std::int64_t{1}});
  for (std::int64_t i = 0; i <= steps; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(steps);
    const auto x =
        std::lround(static_cast<double>(from.x) + share * static_cast<double>(to.x - from.x));
    const auto y =
        std::lround(static_cast<double>(from.y) + share * static_cast<double>(to.y - from.y));
    plane.set(static_cast<std::size_t>(x), static_cast<std::size_t>(y), series);
  }
}

struct PlaneRanges {
  AxisRange x, y;
};

Dot dot_of(const DotPlane& plane, const PlaneRanges& ranges, ChartPoint point) {
  const auto width = static_cast<double>(plane.width() - 1);
  const auto height = static_cast<double>(plane.height() - 1);
  return {std::lround(std::clamp(ranges.x.place(point.x), 0.0, 1.0) * width),
          std::lround((1 - std::clamp(ranges.y.place(point.y), 0.0, 1.0)) * height)};
}

void draw_curve(DotPlane& plane, const PlaneRanges& ranges, const ChartSeries& series,
                std::size_t number) {
  Dot before;
  bool drawing = false;
  for (const auto& point : thin_points(series.points, ranges.x, plane.width())) {
    const bool finite = std::isfinite(point.y);
    if (finite) {
      const Dot dot = dot_of(plane, ranges, point);
      draw_stroke(plane, drawing ? before : dot, dot, number);
      before = dot;
    }
    drawing = finite;
  }
}

std::optional<PlaneRanges> ranges_of(const std::vector<ChartSeries>& all) {
  AxisExtent x, y;
  for (const auto& series : all)
    for (const auto& point : series.points) {
      x.add(point.x);
      y.add(point.y);
    }
  if (y.empty()) return std::nullopt;
  return PlaneRanges{x.exact(), y.padded()};
}

// Returns the labels of the rows; "" for a row without one.
std::vector<std::string> row_labels(const AxisRange& range, std::size_t rows) {
  std::vector<std::string> labels(rows);
  const int wanted = std::max(2, static_cast<int>(rows / 3));
  for (const auto& tick : axis_ticks(range, wanted)) {
    const double place = (1 - range.place(tick.value)) * static_cast<double>(rows);
    const auto row =
        static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(rows - 1)));
    if (labels[row].empty()) labels[row] = tick.label.substr(0, kMostLabel);
  }
  return labels;
}

std::size_t widest_of(const std::vector<std::string>& labels) {
  std::size_t widest = 0;
  for (const auto& label : labels) widest = std::max(widest, label.size());
  return widest;
}

std::string padded_left(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

// Returns the line of labels below, each at its value. A label that would touch another is left
// out.
StyledLine step_label_line(const AxisRange& range, std::size_t margin, std::size_t columns) {
  std::string text(margin, ' ');
  const int wanted = std::max(2, static_cast<int>(columns / 12));
  for (const auto& tick : axis_ticks(range, wanted)) {
    const auto place = static_cast<std::size_t>(std::lround(
        std::clamp(range.place(tick.value), 0.0, 1.0) * static_cast<double>(columns - 1)));
    const std::size_t room = margin + columns - std::min(margin + columns, tick.label.size());
    const std::size_t from =
        std::min(margin + place - std::min(place, tick.label.size() / 2), room);
    if (from < text.size() + (text.size() > margin ? 1 : 0)) continue;
    text += std::string(from - text.size(), ' ') + tick.label;
  }
  return {{text, TextStyle::dim}};
}

constexpr std::string_view kPartLetters = "dfbcor";  // One letter a name; "other" has r.

double sum_of(const StepSeconds& seconds) {
  double sum = 0;
  for (const double part : seconds.parts()) sum += part;
  return sum;
}

std::string repeated(std::string_view sign, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += sign;
  return text;
}

std::string_view part_sign(std::size_t part, bool utf8) {
  return utf8 ? "█" : kPartLetters.substr(part, 1);
}

StyledLine split_bar(const StepSeconds& seconds, double sum, const StepSplitOptions& options) {
  const std::string label = "step " + duration_text(sum) + " ";
  StyledLine line = {{label, TextStyle::dim}};
  const auto width = static_cast<double>(options.columns - std::min(options.columns, label.size()));
  double before = 0;
  for (std::size_t i = 0; i < kStepParts; ++i) {
    const double after = before + seconds.parts()[i];
    const auto cells = std::lround(after / sum * width) - std::lround(before / sum * width);
    line.push_back(
        {repeated(part_sign(i, options.utf8), static_cast<std::size_t>(cells)), series_style(i)});
    before = after;
  }
  return line;
}

// Returns the legend, without the entries that do not fit.
StyledLine split_legend(const StepSeconds& seconds, double sum, const StepSplitOptions& options) {
  StyledLine line;
  for (std::size_t i = 0; i < kStepParts; ++i) {
    const auto percent = std::lround(seconds.parts()[i] / sum * 100);
    const std::string name =
        std::string(StepSeconds::kNames[i]) + " " + std::to_string(percent) + "%";
    const std::size_t width = line_width(line) + (line.empty() ? 0 : 2) + 2 + name.size();
    if (percent == 0 || width > options.columns) continue;
    line.push_back({(line.empty() ? "" : "  ") + std::string(part_sign(i, options.utf8)) + " ",
                    series_style(i)});
    line.push_back({name});
  }
  return line;
}

}  // namespace

StyledText curve_sign(std::size_t series, bool utf8) {
  return {utf8 ? "━" : std::string(1, kLetters[series % kLetters.size()]), series_style(series)};
}

std::vector<StyledLine> terminal_chart(const std::vector<ChartSeries>& series,
                                       const TerminalChartOptions& options) {
  constexpr std::size_t kLeastColumns = 12, kLeastRows = 3;
  const auto ranges = ranges_of(series);
  if (options.columns < kLeastColumns || options.rows < kLeastRows || !ranges) return {};
  const std::size_t rows = options.rows - 1;
  const auto labels = row_labels(ranges->y, rows);
  const std::size_t margin = std::min(widest_of(labels), options.columns - 4) + 1;
  DotPlane plane(options.columns - margin - 1, rows, options.utf8);
  for (std::size_t k = 0; k < series.size(); ++k) draw_curve(plane, *ranges, series[k], k);
  std::vector<StyledLine> lines;
  for (std::size_t y = 0; y < rows; ++y) {
    StyledLine line = {
        {padded_left(labels[y], margin - 1) + (options.utf8 ? " │" : " |"), TextStyle::dim}};
    for (auto& piece : plane.row(y)) line.push_back(std::move(piece));
    lines.push_back(std::move(line));
  }
  lines.push_back(step_label_line(ranges->x, margin + 1, options.columns - margin - 1));
  return lines;
}

std::vector<StyledLine> step_split_lines(const StepSeconds& seconds,
                                         const StepSplitOptions& options) {
  const double sum = sum_of(seconds);
  if (!(sum > 0)) return {};
  std::vector<StyledLine> lines = {split_bar(seconds, sum, options)};
  if (options.legend) lines.push_back(split_legend(seconds, sum, options));
  return lines;
}

}  // namespace accelerate::detail
