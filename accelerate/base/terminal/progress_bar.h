// A progress bar with tqdm's looks, on rank 0.
//
//   for (auto& batch : progress(loader, {.description = "train"})) …
//
//   ProgressBar bar({.description = "train", .total = steps});
//   bar.update();
//   bar.set_postfix({{"loss", loss}, {"lr", 3e-4}});
//
// On a terminal it is one line, redrawn in place; bars that live at the same time stand below each
// other, and log lines pass above them. Elsewhere (a file, a pipe) it is a line every few seconds
// and one at the end.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace accelerate::detail {

// The text of a progress bar, as a pure function of its state. Part of base/progress_bar.

struct ProgressView {
  std::string description = {};              ///< In front; "" for none.
  std::uint64_t done = 0;                    ///< Units done.
  std::optional<std::uint64_t> total = {};   ///< Units in all; unknown when empty.
  std::chrono::duration<double> elapsed{0};  ///< Since the start.
  double units_per_second = 0;               ///< 0 when not known yet.
  std::string unit = "it";                   ///< What is counted.
  bool unit_scale = false;                   ///< Writes "1.23G" for 1,230,000,000.
  std::string postfix = {};                  ///< "key=value, key=value"; "" for none.
};

/// Returns "train:  42%|████▏     | 420/1000 [00:10<00:14, 41.9it/s, loss=0.5]" in at most
/// `columns` columns. The bar takes the room that the rest leaves; when room is short it is left
/// out first. Source of the layout: tqdm.
[[nodiscard]] std::string format_progress_bar(const ProgressView& view, std::size_t columns,
                                              bool utf8);

/// Returns a line without a bar, for a log: "train: 420/1000 (42%) [00:10<00:14, 41.9it/s, …]".
[[nodiscard]] std::string format_progress_line(const ProgressView& view);

/// "01:05", "1:00:00": minutes and seconds, hours in front where needed.
[[nodiscard]] std::string format_interval(std::chrono::duration<double> time);

/// Three significant digits: "0.123", "1e-05", "41.9".
[[nodiscard]] std::string format_short(double value);

}  // namespace accelerate::detail

namespace accelerate {

struct ProgressOptions {
  std::string description = {};             ///< In front of the bar.
  std::optional<std::uint64_t> total = {};  ///< Units in all; `progress` fills it in from size().
  std::uint64_t initial = 0;                ///< Units done before, e.g. when resuming.
  std::string unit = "it";                  ///< What is counted.
  bool unit_scale = false;                  ///< Writes "1.23G" for 1,230,000,000.
  bool main_process_only = true;            ///< Only rank 0 shows it, else every rank.
  /// Whether the line stays when done; unset: yes, unless it is below another bar.
  std::optional<bool> leave = {};
  bool disable = false;                            ///< Counts, but shows nothing.
  int fd = 2;                                      ///< Where to write; standard error.
  std::chrono::milliseconds redraw_interval{50};   ///< Least time between draws on a terminal.
  std::chrono::milliseconds line_interval{5'000};  ///< Least time between lines elsewhere.
};

/// A key with a number (shown with three digits), a whole number or a text.
struct PostfixItem {
  template <std::floating_point T>
  PostfixItem(std::string name, T number) : key(std::move(name)), value(double{number}) {}
  template <std::integral T>
  PostfixItem(std::string name, T number)
      : key(std::move(name)), value(static_cast<std::int64_t>(number)) {}
  PostfixItem(std::string name, std::string text) : key(std::move(name)), value(std::move(text)) {}

  std::string key;
  std::variant<double, std::int64_t, std::string> value;
};

/// Counts units and shows the progress. Threads: any may call anything. Cost of an update that
/// draws nothing: about ten nanoseconds, without a system call.
class ProgressBar {
 public:
  explicit ProgressBar(ProgressOptions options);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Counts `units` more as done.
  void update(std::uint64_t units = 1) {
    done_.fetch_add(units, std::memory_order_relaxed);
    if (shown_ && is_due()) draw_if_due();
  }
  /// Sets what is shown behind the rate, from the next draw on.
  void set_postfix(std::vector<PostfixItem> items);
  void set_description(std::string description);
  /// Shows the final state and ends the line; further updates only count. The destructor calls it.
  void close();

  [[nodiscard]] std::uint64_t done() const { return done_.load(std::memory_order_relaxed); }

 private:
  struct Display;

  [[nodiscard]] bool is_due() const;
  void draw_if_due();

  std::atomic<std::uint64_t> done_;
  std::atomic<std::int64_t> due_ns_{0};  // When to draw next, on the clock of is_due.
  std::atomic<bool> shown_;
  std::mutex mutex_;                  // Guards display_.
  std::unique_ptr<Display> display_;  // None when nothing is shown.
};

namespace detail {

/// The number of elements of `range` by its size(), which may return an optional; nullopt if
/// unknown.
template <typename Range>
std::optional<std::uint64_t> size_if_known(Range& range) {
  if constexpr (requires { static_cast<std::uint64_t>(std::size(range)); }) {
    return static_cast<std::uint64_t>(std::size(range));
  } else if constexpr (requires { static_cast<std::uint64_t>(*range.size()); }) {
    if (const auto size = range.size()) return static_cast<std::uint64_t>(*size);
  }
  return std::nullopt;
}

/// What `progress` returns: `Range` is a reference to the caller's range, or the range itself.
template <typename Range>
class ProgressRange {
  using Iterator = decltype(std::begin(std::declval<std::remove_reference_t<Range>&>()));
  using Sentinel = decltype(std::end(std::declval<std::remove_reference_t<Range>&>()));

 public:
  ProgressRange(Range&& range, ProgressOptions options)
      : range_(std::forward<Range>(range)), bar_(with_total(std::move(options))) {}

  class iterator {
   public:
    iterator(Iterator place, ProgressBar& bar) : place_(std::move(place)), bar_(&bar) {}
    decltype(auto) operator*() { return *place_; }
    // Counts before the step, because the next element may take long to come.
    iterator& operator++() {
      bar_->update();
      ++place_;
      return *this;
    }
    bool operator==(const Sentinel& end) const { return place_ == end; }

   private:
    Iterator place_;
    ProgressBar* bar_;
  };

  iterator begin() { return {std::begin(range_), bar_}; }
  Sentinel end() { return std::end(range_); }
  /// Returns the bar, for set_postfix and the like.
  ProgressBar& bar() { return bar_; }

 private:
  ProgressOptions with_total(ProgressOptions options) {
    if (!options.total) options.total = size_if_known(range_);
    return options;
  }

  Range range_;
  ProgressBar bar_;
};

}  // namespace detail

/// Returns `range` with a bar that counts the elements as a range-for loop visits them. A range
/// given as an rvalue is moved in. An early `break` or an exception leaves the bar where it was.
template <typename Range>
[[nodiscard]] detail::ProgressRange<Range> progress(Range&& range, ProgressOptions options = {}) {
  return {std::forward<Range>(range), std::move(options)};
}

}  // namespace accelerate
