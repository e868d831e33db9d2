// Expands paths in environment variables as Python's os.path does.
#pragma once

#include <string>
#include <string_view>

namespace accelerate::detail {

/// Whether `c` is an ASCII letter, an ASCII digit or '_'. Source: `\w` of Python's re.ASCII.
[[nodiscard]] constexpr bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Replaces a leading "~" by the home directory, and a leading "~name" by the home of that user.
/// Returns `path` unchanged if the user or the home is unknown. Source: `os.path.expanduser`.
[[nodiscard]] std::string expand_user(const std::string& path);

/// Replaces $NAME and ${NAME} by the variables' values, which are not expanded again. Variables
/// that are not set stay as they are. Source: `os.path.expandvars`.
[[nodiscard]] std::string expand_variables(std::string_view path);

}  // namespace accelerate::detail
