#include "accelerate/watch/terminal/run_frame.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "accelerate/base/terminal/progress_bar.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/watch/run_log/display_text.h"
#include "accelerate/watch/run_log/run_summary.h"
#include "accelerate/watch/run_log/series.h"
#include "accelerate/watch/terminal/terminal_chart.h"

namespace accelerate {
namespace {

using detail::ChartSeries;
using detail::fit_line;
using detail::line_width;
using Lines = std::vector<StyledLine>;

constexpr std::size_t kMostCurves = 3;
constexpr std::size_t kTwoCharts = 96;  // With at least this many columns there are two charts.

// What all parts of a frame need.
struct FrameContext {
  const RunHistory& history;
  const RunSummary& summary;
  const RunFrameOptions& options;

  [[nodiscard]] std::string safe(const std::string& text) const {
    return options.utf8 ? detail::plain_line(text, 500) : detail::ascii_line(text, 500);
  }
  // Returns a text from the log, shortened so that other texts fit on the line.
  [[nodiscard]] std::string name(const std::string& text) const {
    return std::string(fit_columns(safe(text), 24));
  }
};

TextStyle mood_style(RunMood mood) {
  switch (mood) {
    case RunMood::good:
      return TextStyle::good;
    case RunMood::busy:
      return TextStyle::busy;
    case RunMood::warning:
      return TextStyle::warning;
    case RunMood::bad:
      break;
  }
  return TextStyle::bad;
}

// --- the head

StyledLine title_line(const FrameContext& context) {
  const std::size_t columns = context.options.columns;
  const std::string status(fit_columns(context.safe(context.summary.status), columns / 2));
  const auto& begin = context.history.begin;
  std::string more = begin ? context.safe(begin->model) : "";
  for (const auto& fact :
       begin ? std::vector{begin->strategy, begin->precision} : std::vector<std::string>{})
    if (!fact.empty()) more += (more.empty() ? "" : ", ") + context.safe(fact);
  const std::size_t room = columns - std::min(columns, display_width(status) + 1);
  StyledLine left = fit_line(
      {{context.safe(context.options.name), TextStyle::bold}, {"  " + more, TextStyle::dim}}, room);
  const std::size_t blanks = columns - std::min(columns, line_width(left) + display_width(status));
  left.push_back({std::string(blanks, ' '), TextStyle::plain});
  left.push_back({status, mood_style(context.summary.mood)});
  return left;
}

detail::ProgressView progress_view(const RunHistory& history, const RunSummary& summary) {
  detail::ProgressView view;
  view.done = static_cast<std::uint64_t>(std::max<std::int64_t>(history.step, 0));
  const auto steps = history.begin ? history.begin->max_steps : std::nullopt;
  if (steps && *steps > 0) view.total = static_cast<std::uint64_t>(*steps);
  view.elapsed = std::chrono::duration<double>(summary.seconds.value_or(0));
  view.units_per_second = summary.steps_per_second.value_or(0);
  if (history.epoch) view.postfix = "epoch=" + detail::format_short(*history.epoch);
  return view;
}

StyledLine progress_line(const FrameContext& context) {
  const auto view = progress_view(context.history, context.summary);
  return {{detail::format_progress_bar(view, context.options.columns, context.options.utf8),
           TextStyle::plain}};
}

// --- current values

using NamedValue = std::pair<std::string, std::string>;

void add_value(std::vector<NamedValue>& values, const char* name,
               const std::optional<double>& value) {
  if (value) values.emplace_back(name, detail::number_text(*value));
}

void add_log_values(std::vector<NamedValue>& values, const RunHistory& history) {
  if (history.logs.empty()) return;
  const RunLogged& log = history.logs.back();
  add_value(values, "lr", log.learning_rate);
  add_value(values, "grad", log.grad_norm);
  if (log.samples_per_second)
    values.emplace_back("samples/s", detail::scaled_text(*log.samples_per_second));
  if (log.tokens_per_second)
    values.emplace_back("tokens/s", detail::scaled_text(*log.tokens_per_second));
  if (log.memory_bytes) values.emplace_back("memory", format_bytes(*log.memory_bytes));
}

std::vector<NamedValue> current_values(const FrameContext& context) {
  constexpr std::size_t kMostMetrics = 8;
  const RunHistory& history = context.history;
  std::vector<NamedValue> values;
  add_value(values, "loss", context.summary.loss);
  for (const auto& name : detail::metric_names(history, kMostMetrics))
    if (!detail::is_speed(name))
      for (const auto& [metric, value] : history.evaluations.back().metrics)
        if (metric == name) values.emplace_back(context.name(name), detail::number_text(value));
  if (const auto& best = context.summary.best)
    values.emplace_back(
        "best", detail::number_text(best->value) + " at step " + detail::grouped_text(best->step));
  add_log_values(values, history);
  return values;
}

// Returns at most `most` lines; no value is split over two lines.
Lines value_lines(const FrameContext& context, std::size_t most) {
  Lines lines(1);
  for (const auto& [name, value] : current_values(context)) {
    const std::size_t width = display_width(name) + 1 + display_width(value);
    if (!lines.back().empty() && line_width(lines.back()) + 3 + width > context.options.columns) {
      if (lines.size() == most) break;
      lines.emplace_back();
    }
    lines.back().push_back({(lines.back().empty() ? "" : "   ") + name + " ", TextStyle::dim});
    lines.back().push_back({value, TextStyle::bold});
  }
  return lines;
}

// --- curves

std::vector<ChartSeries> loss_curves(const RunHistory& history) {
  std::vector<ChartSeries> curves = {detail::log_series(history, "loss", &RunLogged::loss)};
  for (const auto& name : detail::metric_names(history, 32))
    if (detail::is_loss(name) && curves.size() < kMostCurves)
      curves.push_back(detail::metric_series(history, name));
  return curves;
}

// Returns the first metric that is not a loss, or the learning rate if there is none.
std::vector<ChartSeries> second_curves(const RunHistory& history) {
  for (const auto& name : detail::metric_names(history, 32))
    if (!detail::is_loss(name) && !detail::is_speed(name))
      return {detail::metric_series(history, name)};
  return {detail::log_series(history, "learning rate", &RunLogged::learning_rate)};
}

StyledLine curve_legend(const FrameContext& context, const std::vector<ChartSeries>& curves) {
  StyledLine line = {{"  ", TextStyle::plain}};
  for (std::size_t k = 0; k < curves.size(); ++k) {
    if (curves[k].points.empty()) continue;
    line.push_back(detail::curve_sign(k, context.options.utf8));
    line.push_back({" " + context.name(curves[k].name) + "   ", TextStyle::plain});
  }
  return line;
}

Lines chart_lines(const FrameContext& context, const std::vector<ChartSeries>& curves,
                  std::size_t columns, std::size_t rows) {
  if (rows < 4) return {};
  Lines lines = detail::terminal_chart(curves, {columns, rows - 1, context.options.utf8});
  if (lines.empty()) return lines;
  lines.insert(lines.begin(), fit_line(curve_legend(context, curves), columns));
  return lines;
}

void append_right(Lines& lines, const Lines& right, std::size_t column) {
  for (std::size_t i = 0; i < std::min(lines.size(), right.size()); ++i) {
    lines[i].push_back({std::string(column - std::min(column, line_width(lines[i])), ' ')});
    lines[i].insert(lines[i].end(), right[i].begin(), right[i].end());
  }
}

Lines all_charts(const FrameContext& context, std::size_t rows) {
  const std::size_t columns = context.options.columns;
  const bool two = columns >= kTwoCharts;
  const std::size_t width = two ? (columns - 2) / 2 : columns;
  Lines lines = chart_lines(context, loss_curves(context.history), width, rows);
  if (two)
    append_right(lines, chart_lines(context, second_curves(context.history), width, rows),
                 width + 2);
  return lines;
}

// --- the foot

StyledLine checkpoint_line(const FrameContext& context) {
  const auto& saves = context.history.saves;
  if (saves.empty()) return {};
  const auto best =
      std::find_if(saves.rbegin(), saves.rend(), [](const auto& save) { return save.best; });
  StyledLine line = {{count_of(saves.size(), "checkpoint") + ": ", TextStyle::dim}};
  if (best != saves.rend())
    line.push_back({context.safe(best->folder) + (context.options.utf8 ? " ★ best" : " (best)"),
                    TextStyle::good});
  if (best == saves.rbegin()) return line;
  line.push_back({(best == saves.rend() ? "" : ", newest ") + context.safe(saves.back().folder)});
  return line;
}

TextStyle level_style(const std::string& level) {
  return level == "error"     ? TextStyle::bad
         : level == "warning" ? TextStyle::warning
                              : TextStyle::dim;
}

Lines note_lines(const FrameContext& context, std::size_t most) {
  const auto& notes = context.history.notes;
  Lines lines;
  for (std::size_t i = notes.size() - std::min(notes.size(), most); i < notes.size(); ++i)
    lines.push_back({{"step " + detail::grouped_text(notes[i].step) + ": ", TextStyle::dim},
                     {context.safe(notes[i].text), level_style(notes[i].level)}});
  return lines;
}

void append_lines(Lines& lines, Lines more) {
  for (auto& line : more)
    if (!line.empty()) lines.push_back(std::move(line));
}

Lines head_lines(const FrameContext& context) {
  Lines lines = {title_line(context)};
  if (context.history.empty()) {
    lines.push_back({{"nothing was logged yet", TextStyle::dim}});
    return lines;
  }
  lines.push_back(progress_line(context));
  append_lines(lines, value_lines(context, context.options.rows >= 18 ? 2 : 1));
  return lines;
}

Lines foot_lines(const FrameContext& context) {
  const std::size_t rows = context.options.rows;
  Lines lines;
  if (rows >= 9 && context.summary.step_seconds)
    append_lines(lines, detail::step_split_lines(
                            *context.summary.step_seconds,
                            {context.options.columns, rows >= 16, context.options.utf8}));
  if (rows >= 10) append_lines(lines, {checkpoint_line(context)});
  if (rows >= 11) append_lines(lines, note_lines(context, rows >= 30 ? 5 : rows >= 20 ? 3 : 1));
  return lines;
}

}  // namespace

std::vector<StyledLine> run_frame(const RunHistory& history, const RunFrameOptions& options) {
  const RunSummary summary = summarise_run(history, options.now);
  const FrameContext context{history, summary, options};
  Lines lines = head_lines(context);
  const Lines foot = foot_lines(context);
  const std::size_t footer = options.footer.empty() ? 0 : 1;
  const std::size_t used = lines.size() + foot.size() + footer;
  if (options.rows > used) append_lines(lines, all_charts(context, options.rows - used));
  append_lines(lines, foot);
  lines.resize(std::min(lines.size(), options.rows - std::min(options.rows, footer)));
  if (footer > 0) lines.push_back({{options.footer, TextStyle::dim}});
  lines.resize(std::min(lines.size(), options.rows));
  for (auto& line : lines) line = fit_line(line, options.columns);
  return lines;
}

std::string run_line(const RunHistory& history, const std::string& name) {
  const RunSummary summary = summarise_run(history);
  auto view = progress_view(history, summary);
  view.description = detail::ascii_line(name, 200);
  if (summary.loss)
    view.postfix +=
        (view.postfix.empty() ? "loss=" : ", loss=") + detail::format_short(*summary.loss);
  return detail::format_progress_line(view);
}

}  // namespace accelerate
