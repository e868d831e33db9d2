// The lock of a folder, or of a single file in it, on a real file system. Part of base/file_system.
#pragma once

#include <filesystem>
#include <memory>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/file_system.h"

namespace accelerate::detail {

/// FileSystem::lock by flock(2) on the file ".lock" in the folder, which holds "process 4711 on
/// host node1" for whoever comes second. The last holder removes the file; one that was killed
/// leaves it, unlocked.
[[nodiscard]] std::unique_ptr<FolderLock> lock_folder(const std::filesystem::path& directory);

/// The same for one file of a folder that several use: by flock(2) on the file `lock` beside it.
[[nodiscard]] std::unique_ptr<FolderLock> lock_file(const std::filesystem::path& file,
                                                    const std::filesystem::path& lock);

/// A step of both: takes the lock of the file `lock`, which was opened before. Null when that file
/// has been removed since, by a holder that left: whoever opens the name now would get another.
[[nodiscard]] std::unique_ptr<FolderLock> lock_opened(Descriptor opened,
                                                      const std::filesystem::path& file,
                                                      const std::filesystem::path& lock);

}  // namespace accelerate::detail
