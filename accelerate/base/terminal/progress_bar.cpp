#include "accelerate/base/terminal/progress_bar.h"

#include <ctime>

#include "accelerate/base/process_identity.h"
#include "accelerate/base/terminal/live_lines.h"
#include "accelerate/base/terminal/progress_format.h"
#include "accelerate/base/terminal/terminal.h"

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
