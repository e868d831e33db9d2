// What this machine has: memory, and what its processor can do. Read from the kernel's files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#if defined(__x86_64__)
/// Compiles a function for AVX2 and FMA. Call it only where has_avx2() is true.
#define ACCELERATE_AVX2 __attribute__((target("avx2,fma")))
#else
#define ACCELERATE_AVX2
#endif

namespace accelerate::detail {

[[nodiscard]] inline bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

}  // namespace accelerate::detail

namespace accelerate {

/// Where to look; a test points these at folders of its own.
struct HardwareRoots {
  std::filesystem::path proc = "/proc";
  std::filesystem::path dev = "/dev";
  std::filesystem::path sys = "/sys";
};

/// Returns the installed memory; 0 when the kernel does not say.
[[nodiscard]] std::uint64_t memory_bytes(const HardwareRoots& roots = {});

/// What kernels are chosen by.
struct Processor {
  std::string vendor;  ///< "GenuineIntel", "AuthenticAMD"; empty when the kernel does not say.
  std::int64_t family = 0;
  bool avx512 = false;  ///< With the parts BW, DQ and VL.
};

/// Returns the first processor that the kernel lists. Cost: reads a few lines of /proc/cpuinfo.
[[nodiscard]] Processor this_processor(const HardwareRoots& roots = {});

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
