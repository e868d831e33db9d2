// Asks the user at the terminal.
#pragma once

#include <string>

namespace accelerate::cli {

/// Reads a line without showing it: from the terminal, after `question`, else from standard input.
/// Throws ConfigError when there is none.
[[nodiscard]] std::string read_secret(const std::string& question);

/// Whether the user answers `question` by y or yes. Throws ConfigError where standard input is no
/// terminal, with the cure --yes.
[[nodiscard]] bool is_agreed(const std::string& question);

}  // namespace accelerate::cli
