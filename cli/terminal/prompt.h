// Asks the user at the terminal.
#pragma once

#include <string>

namespace accelerate::cli {

/// Reads a line without showing it: from a terminal after `question`, else from standard input.
/// Throws ConfigError when the line is empty.
[[nodiscard]] std::string read_secret(const std::string& question);

/// Whether the user answers `question` with y or yes. Throws ConfigError, which names --yes, if
/// standard input is not a terminal.
[[nodiscard]] bool is_agreed(const std::string& question);

}  // namespace accelerate::cli
