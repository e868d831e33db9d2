// Process groups as the kernel sees them.
#pragma once

#include <sys/types.h>

namespace accelerate::detail {

/// Whether a process of the group of `leader` still runs; zombies do not count, for in a container
/// without an init process nobody may ever collect them.
[[nodiscard]] bool group_runs(pid_t leader);

/// Sends `signal` to every process of the group. One that is stopped (Ctrl-Z, SIGSTOP) is continued
/// when `signal` asks it to end, or it would never hear of it.
void signal_group(pid_t leader, int signal);

}  // namespace accelerate::detail
