// What files and folders hold.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"

namespace accelerate::testing {

/// The bytes of `file`; none where there is no such file.
inline std::string file_text(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

/// The names in `folder`, sorted, but for the lock of a folder of checkpoints.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  auto names = real_file_system().list(folder);
  std::erase(names, ".lock");
  return names;
}

}  // namespace accelerate::testing
