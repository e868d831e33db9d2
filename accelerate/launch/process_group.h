// Process groups as the kernel sees them.
#pragma once

#include <sys/types.h>

namespace accelerate::detail {

/// Whether a process of the group of `leader` still runs. Zombies do not count, because in a
/// container without an init process nobody may ever collect them.
[[nodiscard]] bool group_runs(pid_t leader);

/// Sends `signal` to every process of the group. When `signal` asks to end, stopped processes
/// (Ctrl-Z, SIGSTOP) are continued too, or they would never receive it.
void signal_group(pid_t leader, int signal);

}  // namespace accelerate::detail
