#include "accelerate/watch/terminal/terminal_chart.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "accelerate/watch/run_log/display_text.h"

namespace accelerate::detail {
namespace {

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

std::vector<StyledLine> step_split_lines(const StepSeconds& seconds,
                                         const StepSplitOptions& options) {
  const double sum = sum_of(seconds);
  if (!(sum > 0)) return {};
  std::vector<StyledLine> lines = {split_bar(seconds, sum, options)};
  if (options.legend) lines.push_back(split_legend(seconds, sum, options));
  return lines;
}

}  // namespace accelerate::detail
