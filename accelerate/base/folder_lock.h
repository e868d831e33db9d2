// The lock of a folder, or of a single file in it, on a real file system. Part of base/file_system.
#pragma once

#include <filesystem>
#include <memory>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/file_system.h"

namespace accelerate::detail {

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

}  // namespace accelerate::detail
