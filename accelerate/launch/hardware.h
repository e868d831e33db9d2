// Finds what this machine has, in milliseconds and without LibTorch or a driver call: the kernel's
// files are enough. The launcher needs the counts for its defaults, `accelerate env` the names,
// `accelerate config default` both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace accelerate {

/// Where to look; a test points these at its own folders.
struct HardwareRoots {
  std::filesystem::path proc = "/proc";
  std::filesystem::path dev = "/dev";
  std::filesystem::path sys = "/sys";
};

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

/// visible_gpus().size().
[[nodiscard]] int gpu_count();

/// The number of physical cores that this process may run on, at least 1. Hyper-threads of a core
/// count once. Cores outside the affinity mask, or beyond the control group's CPU quota, do not
/// count.
[[nodiscard]] int physical_cores(const HardwareRoots& roots = {});

/// Installed memory; 0 when the kernel does not say.
[[nodiscard]] std::uint64_t memory_bytes(const HardwareRoots& roots = {});

}  // namespace accelerate
