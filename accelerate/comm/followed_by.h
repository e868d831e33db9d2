// A Work with a second step.
#pragma once

#include <functional>

#include "accelerate/comm/communicator.h"

namespace accelerate {

/// Returns a Work that waits for `work` and then runs `then` on the waiting thread. `then` may
/// communicate.
[[nodiscard]] Work followed_by(Work work, std::function<void()> then);

}  // namespace accelerate
