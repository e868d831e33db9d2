// The files of cli/project_template, which the build writes into the program.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace accelerate::cli {

/// Path and content of each, with @NAME@ and @VERSION@ where these go.
[[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> project_files();

}  // namespace accelerate::cli
