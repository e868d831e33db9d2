// What this machine has, found in milliseconds and without LibTorch or a driver call: the files
// that the kernel shows are enough. The launcher needs the counts for its defaults, `accelerate
// env` the names, `accelerate config default` both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace accelerate {

/// Where to look; a test points these at folders of its own.
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

/// The NVIDIA GPUs that a program started now would see, in the order it would see them:
/// those the driver shows, filtered by CUDA_VISIBLE_DEVICES. As CUDA does, the list ends at the
/// first entry that names no GPU, so an empty variable or "-1" hides all of them.
[[nodiscard]] std::vector<Gpu> visible_gpus(const HardwareRoots& roots = {});

/// visible_gpus().size().
[[nodiscard]] int gpu_count();

/// Physical cores this process may run on: hyper-threads count once, cores outside the affinity
/// mask and beyond the CPU quota of the control group do not count. At least 1.
[[nodiscard]] int physical_cores(const HardwareRoots& roots = {});

/// Installed memory; 0 when the kernel does not say.
[[nodiscard]] std::uint64_t memory_bytes(const HardwareRoots& roots = {});

}  // namespace accelerate
