// What a tracker says when something goes wrong, from any thread.
#pragma once

#include <string>

#include "accelerate/base/logger.h"

namespace accelerate::detail {

/// Warns as the logger accelerate.tracking. A tracker runs on the right ranks already, and its
/// threads belong to none, so all of them speak. Nothing passes out: a wrong ACCELERATE_LOG_LEVEL,
/// or a sink that throws, must not end the thread that wants to say that a disk is full.
inline void warn(const std::string& text) noexcept {
  try {
    get_logger("accelerate.tracking").warning(text, {.main_process_only = false});
  } catch (...) {  // Said above.
  }
}

/// The same, once for each text.
inline void warn_once(const std::string& text) noexcept {
  try {
    get_logger("accelerate.tracking").warning_once(text, {.main_process_only = false});
  } catch (...) {  // Said above.
  }
}

}  // namespace accelerate::detail
