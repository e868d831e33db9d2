// Where the time of steps goes.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "accelerate/comm/waited.h"
#include "accelerate/report/run_events.h"

namespace accelerate::detail {

enum class StepPart : std::uint8_t { data, forward, backward, communication, optimizer, other };

/// Adds up the time between calls, part by part; on the host: work that a GPU does later counts
/// where the host waits for it.
class StepClock {
 public:
  /// What has passed since the last call, or restart(), was spent on `part`; what of it was waiting
  /// for other ranks, on communication.
  void spent_on(StepPart part) {
    const auto now = Clock::now();
    const double passed = std::chrono::duration<double>(now - last_).count();
    const double waited = seconds_waited() - waited_;
    add(part, passed - waited);
    add(StepPart::communication, waited);
    restart();
  }
  /// What has passed counts for nothing.
  void restart() {
    last_ = Clock::now();
    waited_ = seconds_waited();
  }
  void end_step() { ++steps_; }

  /// Mean seconds of a step in each part since the last take().
  [[nodiscard]] StepSeconds take() {
    auto mean = seconds_;
    for (double& part : mean) part = steps_ > 0 ? part / static_cast<double>(steps_) : 0;
    seconds_ = {};
    steps_ = 0;
    return {mean[0], mean[1], mean[2], mean[3], mean[4], mean[5]};
  }

 private:
  using Clock = std::chrono::steady_clock;
  void add(StepPart part, double seconds) { seconds_[static_cast<std::size_t>(part)] += seconds; }

  Clock::time_point last_ = Clock::now();
  double waited_ = seconds_waited();
  std::array<double, kStepParts> seconds_{};
  std::int64_t steps_ = 0;
};

}  // namespace accelerate::detail
