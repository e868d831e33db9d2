// Folders that are there after a power cut, and ones that go again when their purpose failed.
#pragma once

#include <filesystem>
#include <vector>

#include "accelerate/base/file_system.h"

namespace accelerate {

/// Makes `folder` and its missing parents, and syncs the names of those that it made. Throws
/// FileError.
void create_directories_durably(FileSystem& files, const std::filesystem::path& folder);

/// Notes which of a folder and its parents are missing. Unless keep() is called, its destructor
/// removes those of them that have come to be and are empty: what failed leaves no empty folder.
class NewFolders {
 public:
  /// Makes nothing. Throws FileError.
  NewFolders(FileSystem& files, const std::filesystem::path& folder);
  ~NewFolders();
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;

  void keep() noexcept { missing_.clear(); }

 private:
  FileSystem& files_;
  std::vector<std::filesystem::path> missing_;  // The innermost first.
};

}  // namespace accelerate
