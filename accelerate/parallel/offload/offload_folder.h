// A rank's folder for what its memory need not hold.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "accelerate/base/folder_lock.h"

namespace accelerate::detail {

/// The folder "accelerate-offload-<job>-rank<n>" below the folder that the user named. It is locked
/// while this lives, and removed in the end. A killed process leaves it, unlocked: the next rank
/// that makes a folder beside it removes it. Nothing in it is ever read again, so that it cannot
/// pass for a checkpoint.
class OffloadFolder {
 public:
  /// `job`: a name that the ranks share and no other job of these machines has: two numbers with a
  /// hyphen between them. Makes `root` if it
  /// is missing. Warns when `root` is memory (tmpfs) or on another machine (NFS, SMB). Throws
  /// FileError for a folder that cannot be made or written, FolderInUse when another process has
  /// this rank's folder.
  OffloadFolder(const std::filesystem::path& root, const std::string& job, int rank);
  ~OffloadFolder();
  OffloadFolder(const OffloadFolder&) = delete;
  OffloadFolder& operator=(const OffloadFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int process_;  // That made it.
  std::unique_ptr<FolderLock> lock_;
};

/// Returns what speaks against a folder on this file system: "is memory" for tmpfs, "is on another
/// machine" for NFS and SMB; "" if nothing does. `type`: statfs(2)'s f_type.
[[nodiscard]] std::string weakness_of_file_system(long type);

}  // namespace accelerate::detail
