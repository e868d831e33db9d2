// What the terminal behind a file descriptor can show.
#pragma once

#include <cstddef>

namespace accelerate {

/// Whether `fd` is a terminal on which lines can be redrawn (not where TERM=dumb).
[[nodiscard]] bool is_redrawable(int fd);

/// Columns of the terminal `fd` now; 80 when it does not say.
[[nodiscard]] std::size_t terminal_columns(int fd);

/// Whether the locale of the environment (LC_ALL, LC_CTYPE, LANG) says UTF-8.
[[nodiscard]] bool locale_is_utf8();

}  // namespace accelerate
