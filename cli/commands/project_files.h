// The files of cli/project_template, which the build writes into the program.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace accelerate::cli {

/// Returns path and content of each file, with names such as @VERSION@ in the places to fill in.
/// Files in a folder belong to the template of that name.
[[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> project_files();

}  // namespace accelerate::cli
