// The files of a folder, and whether a name is a local folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accelerate::detail {

/// Returns the files below `folder`, links followed, as sorted relative paths with '/'. Throws
/// FileError.
[[nodiscard]] std::vector<std::string> files_below(const std::filesystem::path& folder);

/// Whether a folder with this name exists. Throws ConfigError if it does not and the name is not a
/// repository's id either.
[[nodiscard]] bool is_local(const std::string& name_or_folder);

}  // namespace accelerate::detail
