// Which device a rank computes on.
#pragma once

#include <c10/core/Device.h>

#include <optional>

namespace accelerate {

/// ACCELERATE_TORCH_DEVICE ("cpu", "cuda", "cuda:1") when set, else the CPU when `cpu` is true or
/// no GPU is there, else GPU number local_rank modulo the number of GPUs. Throws ConfigError when
/// the variable names a device that is not there.
[[nodiscard]] c10::Device choose_device(bool cpu, int local_rank);

/// Binds this process to its part of the cores when ACCELERATE_CPU_AFFINITY asks for it and the
/// launcher has not done so: on the CPU to a share of its own (see divide_cores), on a GPU to the
/// CPUs near that GPU, as upstream. Returns the cores that every rank of this machine has at least;
/// nullopt when nothing was divided, which is said at level info. Happens once a process, as
/// upstream's `set_numa_affinity`, which does nothing on the CPU.
/// Throws ConfigError when the variable is no boolean.
std::optional<int> keep_to_cores(c10::Device device, int local_rank, int local_world_size);

/// Sets LibTorch's intra-operation threads to `cores` when given, else to the machine's physical
/// cores divided by the ranks on it, at least 1; leaves them alone when OMP_NUM_THREADS is set.
void share_cores(std::optional<int> cores, int local_world_size);

}  // namespace accelerate
