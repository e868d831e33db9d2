// Which device a rank computes on.
#pragma once

#include <c10/core/Device.h>

#include <optional>

namespace accelerate {

/// Returns the device that ACCELERATE_TORCH_DEVICE names ("cpu", "cuda", "cuda:1"). When it is
/// unset, returns the CPU if `cpu` is true or there is no GPU, else GPU number local_rank modulo
/// the number of GPUs. Throws ConfigError when the variable names a device that is not there.
[[nodiscard]] c10::Device choose_device(bool cpu, int local_rank);

/// Binds this process to its part of the cores when ACCELERATE_CPU_AFFINITY asks for it and the
/// launcher has not done so. A rank on the CPU gets its own share of the cores (see divide_cores).
/// A rank on a GPU gets the CPUs near that GPU, as upstream. Returns the number of cores that every
/// rank of this machine has at least; nullopt when the cores were not divided. Logs the binding, or
/// that ranks outnumber cores, at level info. Runs once per process, as upstream's
/// `set_numa_affinity`, which does nothing on the CPU. Throws ConfigError when the variable is not
/// a boolean.
std::optional<int> keep_to_cores(c10::Device device, int local_rank, int local_world_size);

/// Sets the number of LibTorch's intra-operation threads: `cores` when given, else the machine's
/// physical cores divided by its ranks, at least 1. Leaves the number alone when OMP_NUM_THREADS is
/// set.
void share_cores(std::optional<int> cores, int local_world_size);

}  // namespace accelerate
