// Scripts with which shells complete commands, flags and their values.
#pragma once

#include "cli/reference/command_text.h"

namespace accelerate::cli {

/// Return the script for bash, zsh or fish. It completes commands, flags and the words that a flag
/// takes, and file names elsewhere.
[[nodiscard]] std::string bash_completion(const CommandText& program);
[[nodiscard]] std::string zsh_completion(const CommandText& program);
[[nodiscard]] std::string fish_completion(const CommandText& program);

}  // namespace accelerate::cli
