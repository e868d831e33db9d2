// The part of the command line that needs LibTorch is a program of its own, so that the rest starts
// in milliseconds.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accelerate::cli {

/// Where it is: libexec/accelerate/accelerate-torch beside the folder of the command that runs. It
/// may be absent: builds without the library have none.
[[nodiscard]] std::filesystem::path torch_program();
[[nodiscard]] bool has_torch_program();
/// Throws ConfigError, which begins with `what`, where there is none.
void require_torch_program(const std::string& what);

/// What it writes when it is called with `words`. Throws ConfigError, with what it says, when it
/// fails, and when this build has none.
[[nodiscard]] std::string output_of_torch_program(const std::vector<std::string>& words);

}  // namespace accelerate::cli
