// How long ranks wait for each other.
#pragma once

#include <chrono>

#include "accelerate/base/deadline.h"

namespace accelerate {

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
