// A folder for temporary files.
#pragma once

#include <filesystem>
#include <string>

namespace accelerate {

/// A new folder, for this user alone, below the system's folder for temporary files (TMPDIR). The
/// destructor removes it with all that is in it; only a killed process leaves it. Throws
/// ConfigError where the system's folder does not exist, FileError where it cannot be written into.
class TemporaryFolder {
 public:
  /// `purpose` is a part of its name: "accelerate-<purpose>-XXXXXX".
  explicit TemporaryFolder(const std::string& purpose);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace accelerate
