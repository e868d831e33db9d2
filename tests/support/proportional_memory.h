// What the system says this process's memory is.
#pragma once

#include <fstream>
#include <string>

namespace accelerate::testing {

/// Bytes of pages of its own, and of its part of those that it shares with others; none of files,
/// which are the code that has run and change with every other process that runs it.
inline double proportional_set_size() {
  std::ifstream file("/proc/self/smaps_rollup");
  double kilobytes = 0;
  for (std::string line; std::getline(file, line);) {
    for (const std::string kind : {"Pss_Anon:", "Pss_Shmem:"})
      if (line.starts_with(kind)) kilobytes += std::stod(line.substr(kind.size()));
  }
  return kilobytes * 1024;
}

}  // namespace accelerate::testing
