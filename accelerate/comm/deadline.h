// How long ranks wait for each other.
#pragma once

#include <algorithm>
#include <chrono>

namespace accelerate {

/// The time limit of a step with several waits. Starts at construction.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds timeout) : timeout_(timeout) {}
  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }
  [[nodiscard]] std::chrono::milliseconds waited() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 start_);
  }
  /// Never negative.
  [[nodiscard]] std::chrono::milliseconds left() const {
    return std::max(timeout_ - waited(), std::chrono::milliseconds(0));
  }
  [[nodiscard]] bool is_over() const { return left().count() == 0; }

 private:
  std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The time limits of a group.
struct GroupTimes {
  /// For a group whose ranks begin to meet now.
  template <typename Rep, typename Period>
  GroupTimes(std::chrono::duration<Rep, Period> limit)  // NOLINT: reads as a time limit
      : timeout(limit), meeting(limit) {}
  /// For a group that is the last step of a meeting.
  GroupTimes(std::chrono::milliseconds limit, const Deadline& of_meeting)
      : timeout(limit), meeting(of_meeting) {}

  std::chrono::milliseconds timeout;  ///< Of every operation.
  Deadline meeting;                   ///< By which all ranks must be connected.
};

}  // namespace accelerate
