// Which device a rank computes on.
#pragma once

#include <c10/core/Device.h>

namespace accelerate {

/// ACCELERATE_TORCH_DEVICE ("cpu", "cuda", "cuda:1") when set, else the CPU when `cpu` is true or
/// no GPU is there, else GPU number local_rank modulo the number of GPUs. Throws ConfigError when
/// the variable names a device that is not there.
[[nodiscard]] c10::Device choose_device(bool cpu, int local_rank);

/// Sets LibTorch's intra-operation threads to the machine's physical cores divided by the ranks on
/// it, at least 1; leaves them alone when OMP_NUM_THREADS is set.
void share_cores(int local_world_size);

}  // namespace accelerate
