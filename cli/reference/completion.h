// Scripts by which shells complete commands, flags and their values.
#pragma once

#include "cli/reference/command_text.h"

namespace accelerate::cli {

/// For bash, zsh or fish: commands, flags, and the words that a flag takes; files otherwise.
[[nodiscard]] std::string bash_completion(const CommandText& program);
[[nodiscard]] std::string zsh_completion(const CommandText& program);
[[nodiscard]] std::string fish_completion(const CommandText& program);

}  // namespace accelerate::cli
