// Measures where the time of steps goes.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "accelerate/comm/communicator.h"
#include "accelerate/watch/run_log/run_events.h"

namespace accelerate::detail {

enum class StepPart : std::uint8_t { data, forward, backward, communication, optimizer, other };

/// Adds up the time between calls for each part of a step. Measured on the host: work that a GPU
/// does later counts where the host waits for it.
class StepClock {
 public:
  /// Counts the time since the last call, or restart(), for `part`. The part of it that was spent
  /// waiting for other ranks counts for communication.
  void spent_on(StepPart part) {
    const auto now = Clock::now();
    const double passed = std::chrono::duration<double>(now - last_).count();
    const double waited = seconds_waited() - waited_;
    add(part, passed - waited);
    add(StepPart::communication, waited);
    restart();
  }
  /// Counts the time since the last call for nothing.
  void restart() {
    last_ = Clock::now();
    waited_ = seconds_waited();
  }
  void end_step() { ++steps_; }

  /// Returns the mean seconds of a step in each part since the last take().
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
