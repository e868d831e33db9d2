// Where the kernel shows what this machine has: files that take milliseconds to read, without a
// driver call.
#pragma once

#include <filesystem>

namespace accelerate {

/// Where to look; a test points these at folders of its own.
struct HardwareRoots {
  std::filesystem::path proc = "/proc";
  std::filesystem::path dev = "/dev";
  std::filesystem::path sys = "/sys";
};

}  // namespace accelerate
