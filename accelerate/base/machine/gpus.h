// The GPUs of this machine, found without LibTorch or a driver call.
#pragma once

#include <string>
#include <vector>

#include "accelerate/base/machine/hardware.h"
#include "accelerate/base/machine/topology.h"

namespace accelerate {

struct Gpu {
  int index = 0;         ///< Position in the order of the driver, as CUDA_VISIBLE_DEVICES counts.
  std::string name;      ///< "NVIDIA H100 80GB HBM3"; "NVIDIA GPU" when the driver does not say.
  std::string uuid;      ///< "GPU-…", empty when the driver does not say.
  std::string bus = "";  ///< PCI address, "0000:18:00.0"; empty when the driver does not say.
};

/// Returns the NVIDIA GPUs that a program started now would see, in the order it would see them.
/// They are the driver's GPUs, filtered by CUDA_VISIBLE_DEVICES. As in CUDA, the list ends at the
/// first entry that names no GPU, so an empty variable or "-1" hides all of them.
[[nodiscard]] std::vector<Gpu> visible_gpus(const HardwareRoots& roots = {});

/// Returns visible_gpus().size().
[[nodiscard]] int gpu_count();

/// Returns the CPUs of the node that a GPU is attached to; none when the kernel does not say.
[[nodiscard]] CpuList cpus_near(const Gpu& gpu, const HardwareRoots& roots = {});

}  // namespace accelerate
