#include "accelerate/base/terminal/progress_bar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "accelerate/base/process_identity.h"
#include "accelerate/base/terminal/live_lines.h"
#include "accelerate/base/terminal/terminal_screen.h"
#include "accelerate/base/utf8.h"

namespace accelerate {
namespace {

using Seconds = std::chrono::duration<double>;

// The kernel's tick clock: good to a few milliseconds, read without a system call in some 5 ns.
std::int64_t coarse_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

std::int64_t nanoseconds(std::chrono::milliseconds time) {
  return std::chrono::nanoseconds(time).count();
}

std::string text_of(const PostfixItem& item) {
  if (const auto* number = std::get_if<double>(&item.value)) return detail::format_short(*number);
  if (const auto* whole = std::get_if<std::int64_t>(&item.value)) return std::to_string(*whole);
  return std::get<std::string>(item.value);
}

std::string text_of(const std::vector<PostfixItem>& items) {
  std::string text;
  for (const PostfixItem& item : items) {
    if (!text.empty()) text += ", ";
    text += item.key + "=" + text_of(item);
  }
  return text;
}

}  // namespace

// Holds what is shown, and the rate: an exponential average over the draws, as in tqdm.
struct ProgressBar::Display {
  using Clock = std::chrono::steady_clock;

  explicit Display(ProgressOptions given) : options(std::move(given)), counted(options.initial) {
    if (is_redrawable(options.fd)) line.emplace(options.fd);
  }

  [[nodiscard]] std::chrono::milliseconds interval() const {
    return line ? options.redraw_interval : options.line_interval;
  }

  void note(std::uint64_t done) {
    constexpr double kWeight = 0.3;
    const auto now = Clock::now();
    const double seconds = Seconds(now - last).count();
    if (seconds <= 0 || done < counted) return;
    const double current = static_cast<double>(done - counted) / seconds;
    rate = rate > 0 ? kWeight * current + (1 - kWeight) * rate : current;
    last = now;
    counted = done;
  }

  // Returns the rate over the whole time, which is what the final state shows.
  [[nodiscard]] double mean_rate(std::uint64_t done) const {
    const double seconds = Seconds(Clock::now() - start).count();
    return seconds > 0 ? static_cast<double>(done - options.initial) / seconds : 0;
  }

  void show(std::uint64_t done, double units_per_second) {
    const detail::ProgressView view{.description = options.description,
                                    .done = done,
                                    .total = options.total,
                                    .elapsed = Clock::now() - start,
                                    .units_per_second = units_per_second,
                                    .unit = options.unit,
                                    .unit_scale = options.unit_scale,
                                    .postfix = text_of(postfix)};
    if (line) {
      // The last column stays free: a terminal may wrap when it is filled.
      line->draw(format_progress_bar(view, terminal_columns(options.fd) - 1, utf8));
    } else {
      print_above_live_lines(options.fd, format_progress_line(view) + "\n");
    }
  }

  ProgressOptions options;
  std::vector<PostfixItem> postfix;
  std::optional<LiveLine> line;
  bool utf8 = locale_is_utf8();
  Clock::time_point start = Clock::now();
  Clock::time_point last = start;
  std::uint64_t counted;
  double rate = 0;
};

ProgressBar::ProgressBar(ProgressOptions options)
    : done_(options.initial),
      shown_(!options.disable &&
             (!options.main_process_only || process_identity().is_main_process())) {
  if (!shown_) return;
  display_ = std::make_unique<Display>(std::move(options));
  due_ns_ = coarse_ns() + nanoseconds(display_->interval());
  if (display_->line) display_->show(done(), 0);
}

ProgressBar::~ProgressBar() {
  close();
}

bool ProgressBar::is_due() const {
  return coarse_ns() >= due_ns_.load(std::memory_order_relaxed);
}

void ProgressBar::draw_if_due() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !display_ || !is_due()) return;  // Another thread is drawing, or has drawn.
  display_->note(done());
  display_->show(done(), display_->rate);
  due_ns_ = coarse_ns() + nanoseconds(display_->interval());
}

void ProgressBar::set_postfix(std::vector<PostfixItem> items) {
  if (!shown_) return;
  const std::lock_guard lock(mutex_);
  if (display_) display_->postfix = std::move(items);
}

void ProgressBar::set_description(std::string description) {
  if (!shown_) return;
  const std::lock_guard lock(mutex_);
  if (display_) display_->options.description = std::move(description);
}

void ProgressBar::close() {
  shown_ = false;
  const std::lock_guard lock(mutex_);
  if (!display_) return;
  display_->show(done(), display_->mean_rate(done()));
  if (auto& line = display_->line) {
    line->finish(display_->options.leave.value_or(line->is_outermost()));
  }
  display_.reset();
}

}  // namespace accelerate

namespace accelerate::detail {
namespace {

constexpr std::array<const char*, 8> kEighths = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
constexpr std::size_t kWidestBar = 60;

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 64> text{};
  const int size = std::snprintf(text.data(), text.size(), pattern, values...);
  return {text.data(), std::min(static_cast<std::size_t>(size), text.size() - 1)};
}

// Returns done / total, between 0 and 1. A total of 0 counts as done.
double fraction(const ProgressView& view) {
  if (*view.total == 0) return 1;
  return std::min(1.0, static_cast<double>(view.done) / static_cast<double>(*view.total));
}

// Rounded down: 100 means done.
int percent(const ProgressView& view) {
  return static_cast<int>(std::floor(fraction(view) * 100));
}

// Three digits and a power of 1000: "1.23G". Source: tqdm's format_sizeof.
std::string scaled(double value) {
  constexpr std::array<const char*, 7> kPowers = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t power = 0;
  for (; value >= 999.5 && power + 1 < kPowers.size(); ++power) value /= 1000;
  const int decimals = power == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return format("%.*f", decimals, value) + kPowers[power];
}

std::string number(const ProgressView& view, std::uint64_t value) {
  return view.unit_scale ? scaled(static_cast<double>(value)) : std::to_string(value);
}

std::string rate(const ProgressView& view) {
  if (view.units_per_second <= 0) return "?" + view.unit + "/s";
  if (view.unit_scale) return scaled(view.units_per_second) + view.unit + "/s";
  if (view.units_per_second >= 1) {
    return format("%.*f", view.units_per_second < 100 ? 2 : 0, view.units_per_second) + view.unit +
           "/s";
  }
  return format("%.2f", 1 / view.units_per_second) + "s/" + view.unit;
}

std::string remaining(const ProgressView& view) {
  if (view.done >= *view.total) return "00:00";
  if (view.units_per_second <= 0) return "?";
  return format_interval(std::chrono::duration<double>(
      static_cast<double>(*view.total - view.done) / view.units_per_second));
}

// " [00:10<00:14, 41.9it/s, loss=0.5]"
std::string times(const ProgressView& view) {
  std::string text = " [" + format_interval(view.elapsed);
  if (view.total) text += "<" + remaining(view);
  text += ", " + rate(view);
  if (!view.postfix.empty()) text += ", " + view.postfix;
  return text + "]";
}

std::string count(const ProgressView& view) {
  if (!view.total) return number(view, view.done) + view.unit;
  return number(view, view.done) + "/" + number(view, *view.total);
}

std::string label(const ProgressView& view) {
  return view.description.empty() ? "" : view.description + ": ";
}

// Returns the label in what `columns` leave beside `rest_columns`, but in half of them at least: a
// long description is cut before the numbers are.
std::string label_beside(std::size_t rest_columns, const ProgressView& view, std::size_t columns,
                         bool utf8) {
  std::string whole = label(view);
  const std::size_t left = columns > rest_columns ? columns - rest_columns : 0;
  const std::size_t room = std::max(left, columns / 2);
  if (display_width(whole) <= room) return whole;
  const std::string end = utf8 ? "…: " : ".: ";
  const std::size_t end_columns = 3;
  if (room <= end_columns) return "";
  return std::string(fit_columns(view.description, room - end_columns)) + end;
}

std::string bar(double fraction, std::size_t width, bool utf8) {
  const auto eighths = static_cast<std::size_t>(fraction * static_cast<double>(width * 8));
  const std::size_t full = eighths / 8;
  std::string text;
  for (std::size_t i = 0; i < full; ++i) text += utf8 ? "█" : "#";
  if (full == width) return text;
  text += utf8 ? kEighths[eighths % 8] : "-";
  return text + std::string(width - full - 1, utf8 ? ' ' : '-');
}

}  // namespace

std::string format_progress_bar(const ProgressView& view, std::size_t columns, bool utf8) {
  const std::string right = count(view) + times(view);
  if (!view.total) {
    const std::string left = label_beside(display_width(right), view, columns, utf8);
    return std::string(fit_columns(left + right, columns));
  }
  const std::string share = format("%3d%%", percent(view));
  const std::size_t numbers = display_width(share) + 1 + display_width(right);
  const std::string left = label_beside(numbers, view, columns, utf8) + share;
  const std::size_t used = display_width(left) + display_width(right) + 3;  // Two bars, one blank.
  const std::size_t room = columns > used ? std::min(columns - used, kWidestBar) : 0;
  constexpr std::size_t kNarrowestBar = 4;
  const std::string middle =
      room >= kNarrowestBar ? "|" + bar(fraction(view), room, utf8) + "| " : " ";
  return std::string(fit_columns(left + middle + right, columns));
}

std::string format_progress_line(const ProgressView& view) {
  std::string text = label(view) + count(view);
  if (view.total) text += format(" (%d%%)", percent(view));
  return text + times(view);
}

std::string format_interval(std::chrono::duration<double> time) {
  const auto seconds = static_cast<long long>(std::clamp(time.count(), 0.0, 1e12));
  const long long hours = seconds / 3600;
  const std::string tail = format("%02lld:%02lld", seconds / 60 % 60, seconds % 60);
  return hours > 0 ? std::to_string(hours) + ":" + tail : tail;
}

std::string format_short(double value) {
  return format("%.3g", value);
}

}  // namespace accelerate::detail
