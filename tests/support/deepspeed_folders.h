// The state folders that tests/reference/deepspeed_folders.py wrote.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate::testing {

/// The folder that holds one folder a case: the golden archive, unpacked for this process, or what
/// the environment variable ACCELERATE_DEEPSPEED_FOLDERS names instead.
inline const std::filesystem::path& deepspeed_folders() {
  static const std::filesystem::path folder = [] {
    if (const char* other = std::getenv("ACCELERATE_DEEPSPEED_FOLDERS"))
      return std::filesystem::path(other);
    static const TemporaryFolder unpacked;
    const auto archive = reference_path("deepspeed_folders.tar.xz").string();
    const auto result = run_program({"tar", "xf", archive, "-C", unpacked.path().string()});
    if (result.exit_code != 0) throw std::runtime_error("tar has failed: " + result.err);
    return unpacked.path();
  }();
  return folder;
}

/// The names of the cases, sorted.
inline std::vector<std::string> deepspeed_cases() {
  return real_file_system().list(deepspeed_folders());
}

}  // namespace accelerate::testing
