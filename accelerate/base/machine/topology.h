// The cores of this machine as the kernel describes them: which logical CPUs share one, and to
// which NUMA node they belong.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/machine/hardware.h"

namespace accelerate {

/// Numbers of logical CPUs, ascending, each once.
using CpuList = std::vector<int>;

/// Reads "0-3,8" as the kernel writes it. Empty for any other text, and for numbers beyond 65535.
[[nodiscard]] CpuList parse_cpu_list(std::string_view text);

/// Reads a list of CPUs from the first line of a file. Empty without the file.
[[nodiscard]] CpuList read_cpu_list(const std::filesystem::path& path);

/// Writes "0-3,8" for {0, 1, 2, 3, 8}: the form that `taskset -c` takes.
[[nodiscard]] std::string cpu_list_text(const CpuList& cpus);

/// The CPUs that the calling thread may run on, as limited by a container, `taskset` or a batch
/// system. nullopt when the kernel does not say.
[[nodiscard]] std::optional<CpuList> allowed_cpus();

/// A physical core, or the part of it that may be used.
struct Core {
  CpuList cpus;  ///< Its hyper-threads.
  int node = 0;  ///< Its NUMA node; 0 where the kernel knows no nodes.

  bool operator==(const Core&) const = default;
};

/// The cores that `allowed` CPUs belong to (nullopt: all CPUs that are online), by node and then by
/// first CPU. Where the kernel does not say which CPUs are hyper-threads of one core, each allowed
/// CPU counts as a core. Cost: two small files a CPU.
[[nodiscard]] std::vector<Core> cpu_cores(const HardwareRoots& roots,
                                          const std::optional<CpuList>& allowed);

/// The CPU time that the control group grants, in whole CPUs, rounded up; nullopt when it sets no
/// limit.
[[nodiscard]] std::optional<int> cpu_quota(const HardwareRoots& roots = {});

/// Returns the number of physical cores that this process may run on, at least 1. Hyper-threads of
/// a core count once. Cores outside the affinity mask, or beyond the control group's CPU quota, do
/// not count.
[[nodiscard]] int physical_cores(const HardwareRoots& roots = {});

}  // namespace accelerate
