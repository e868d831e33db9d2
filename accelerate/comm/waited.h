// How long a rank has waited for others: for who shows where the time of a step goes.
#pragma once

namespace accelerate::detail {

/// Seconds that the calling thread has spent in Work::wait() since it began. What overlaps other
/// work is not in it. Cost: two looks at the clock a wait.
[[nodiscard]] double seconds_waited();

}  // namespace accelerate::detail
