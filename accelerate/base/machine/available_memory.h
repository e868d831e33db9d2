// How much memory this machine has, and how much of it this process could still get.
#pragma once

#include <cstdint>
#include <string>

#include "accelerate/base/machine/roots.h"

namespace accelerate {

/// Returns the installed memory; 0 when the kernel does not say.
[[nodiscard]] std::uint64_t memory_bytes(const HardwareRoots& roots = {});

struct AvailableMemory {
  std::uint64_t bytes = UINT64_MAX;  ///< UINT64_MAX when the kernel does not say.
  std::string where;                 ///< "this machine", "this container (memory limit 2.00 GB)".
};

/// Returns how much memory the kernel could give out without taking any from a process. That is the
/// machine's available memory, or what is left below the tightest limit of this process's control
/// groups (versions 1 and 2), whichever is less. An estimate, because other processes allocate too.
/// Cost: reads a few files of /proc and /sys, tens of microseconds.
[[nodiscard]] AvailableMemory available_memory(const HardwareRoots& roots = {});

}  // namespace accelerate
