// The wall clock.
#pragma once

#include <chrono>

namespace accelerate::detail {

/// Seconds since 1970, with fractions.
[[nodiscard]] inline double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace accelerate::detail
