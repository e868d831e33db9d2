// Folders that are there after a power cut.
#pragma once

#include <filesystem>

#include "accelerate/base/file_system.h"

namespace accelerate {

/// Makes `folder` and its missing parents, and syncs the names of those that it made. Throws
/// FileError.
void create_directories_durably(FileSystem& files, const std::filesystem::path& folder);

}  // namespace accelerate
