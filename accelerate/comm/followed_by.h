// Work in several parts.
#pragma once

#include <functional>

#include "accelerate/comm/communicator.h"

namespace accelerate {

/// `work`, and `then` after it on the thread that waits; `then` may communicate.
[[nodiscard]] Work followed_by(Work work, std::function<void()> then);

}  // namespace accelerate
