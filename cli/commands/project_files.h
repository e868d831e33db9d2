// The files of cli/project_template, which the build writes into the program.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace accelerate::cli {

/// Returns path and content of each file, with @NAME@ and @VERSION@ in the places to fill in.
[[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> project_files();

}  // namespace accelerate::cli
