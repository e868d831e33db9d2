// The lock of a folder, or of a single file in it: what a holder has, the error of everybody else,
// and how a real file system locks.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/file_error.h"

namespace accelerate {

/// A folder is locked by another process, or by another part of this one: "cannot lock 'runs/a': it
/// is in use by process 4711 on host node1. …".
class FolderInUse : public FileError {
 public:
  /// `holder` says who locked it: "process 4711 on host node1".
  FolderInUse(std::filesystem::path folder, std::string holder);

  [[nodiscard]] std::string_view kind() const noexcept override { return "FolderInUse"; }
  [[nodiscard]] const std::string& holder() const noexcept { return holder_; }

 private:
  std::string holder_;
};

/// The lock of a folder for one holder. The destructor releases it, and so does the system when the
/// process dies, whatever it dies of.
class FolderLock {
 public:
  virtual ~FolderLock() = default;
};

namespace detail {

/// Implements FileSystem::lock by flock(2) on the file ".lock" in the folder. The file names its
/// holder, "process 4711 on host node1", for whoever finds the folder locked. The holder removes
/// the file in the end; a killed holder leaves it, unlocked.
[[nodiscard]] std::unique_ptr<FolderLock> lock_folder(const std::filesystem::path& directory);

/// Locks one file of a folder that several use, by flock(2) on the file `lock` beside it.
[[nodiscard]] std::unique_ptr<FolderLock> lock_file(const std::filesystem::path& file,
                                                    const std::filesystem::path& lock);

/// Does one step of both functions above: locks the file `lock`, which is open as `opened`. Returns
/// null when a former holder has removed that file since it was opened: whoever opens the name now
/// would get another file.
[[nodiscard]] std::unique_ptr<FolderLock> lock_opened(Descriptor opened,
                                                      const std::filesystem::path& file,
                                                      const std::filesystem::path& lock);

}  // namespace detail
}  // namespace accelerate
