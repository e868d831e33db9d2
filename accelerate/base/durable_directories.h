// Folders that survive a power cut, and new folders that go again when their purpose failed.
#pragma once

#include <filesystem>
#include <vector>

#include "accelerate/base/file_system.h"

namespace accelerate {

/// Makes `folder` and its missing parents, and syncs the names of the folders that it made. Throws
/// FileError.
void create_directories_durably(FileSystem& files, const std::filesystem::path& folder);

/// Notes which of a folder and its parents are missing. Unless keep() is called, the destructor
/// removes the noted folders that exist by then and are empty. So a failure leaves no empty folder.
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
