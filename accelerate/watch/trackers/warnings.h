// Warnings of a tracker, from any thread.
#pragma once

#include <string>

#include "accelerate/base/logger.h"

namespace accelerate::detail {

/// Warns through the logger accelerate.tracking, on every rank: a tracker already runs on the right
/// ranks, and its threads belong to none. Drops all exceptions: a wrong ACCELERATE_LOG_LEVEL, or a
/// sink that throws, must not end the thread that reports a full disk.
inline void warn(const std::string& text) noexcept {
  try {
    get_logger("accelerate.tracking").warning(text, {.main_process_only = false});
  } catch (...) {  // See above.
  }
}

/// As warn, once for each text.
inline void warn_once(const std::string& text) noexcept {
  try {
    get_logger("accelerate.tracking").warning_once(text, {.main_process_only = false});
  } catch (...) {  // See above.
  }
}

}  // namespace accelerate::detail
