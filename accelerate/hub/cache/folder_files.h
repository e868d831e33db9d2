// The files of a folder, and whether a name means one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accelerate::detail {

/// The files below `folder`, links followed, as paths there with '/', sorted. Throws FileError.
[[nodiscard]] std::vector<std::string> files_below(const std::filesystem::path& folder);

/// Whether a folder of this name exists. Throws ConfigError when there is none and the name is no
/// repository's id either.
[[nodiscard]] bool is_local(const std::string& name_or_folder);

}  // namespace accelerate::detail
