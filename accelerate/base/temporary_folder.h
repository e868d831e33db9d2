// A folder for files that are not to stay.
#pragma once

#include <filesystem>
#include <string>

namespace accelerate {

/// A new folder, for this user alone, below the system's folder for temporary files (TMPDIR).
/// Removed with all that is in it by the destructor; only a killed process leaves it. Throws
/// ConfigError where there is no such folder, FileError where it cannot be written into.
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
