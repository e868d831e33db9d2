// How long a rank has waited for its peers, for reports of where the time of a step goes.
#pragma once

namespace accelerate::detail {

/// Returns the seconds that the calling thread has spent in Work::wait() since the thread began.
/// Communication that overlaps other work does not count. Cost: two clock reads per wait.
[[nodiscard]] double seconds_waited();

}  // namespace accelerate::detail
