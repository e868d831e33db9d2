// The wall-clock time.
#pragma once

#include <chrono>

namespace accelerate::detail {

/// Returns the seconds since 1970, with fractions.
[[nodiscard]] inline double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace accelerate::detail
