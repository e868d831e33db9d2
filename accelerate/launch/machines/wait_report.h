// What a launcher says while it waits.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "accelerate/base/deadline.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {

/// Tells every five seconds what is waited for, and how long: "waiting for machine 1 (5 s of 600 s)".
class WaitReport {
 public:
  using Tell = std::function<void(const std::string&)>;

  /// `tell` may be empty. `deadline`: of the wait; must outlive this. `end`: of each report.
  WaitReport(Tell tell, const Deadline& deadline, std::string end = "")
      : tell_(std::move(tell)), deadline_(deadline), end_(std::move(end)) {}

  /// To be called again and again. `what()` is called only if there is something to tell.
  template <typename What>
  void operator()(What what) {
    if (deadline_.waited() < next_) return;
    next_ = deadline_.waited() + kBetween;
    if (!tell_) return;
    tell_(what() + " (" + format_duration(deadline_.waited()) + " of " +
          format_duration(deadline_.timeout()) + ")" + end_);
  }

 private:
  static constexpr std::chrono::milliseconds kBetween{5000};
  Tell tell_;
  const Deadline& deadline_;
  std::string end_;
  std::chrono::milliseconds next_ = kBetween;
};

}  // namespace accelerate::detail
