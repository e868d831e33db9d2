// Text with styles for a terminal: what is drawn, apart from how a terminal is told.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// What a piece of text is, from which its colour follows. `series` and the five after it are the
/// colours of curves and of the parts of a step.
enum class TextStyle {
  plain,
  bold,
  dim,
  good,
  busy,
  warning,
  bad,
  series,
  series2,
  series3,
  series4,
  series5,
  series6
};

/// The style of the curve or part with this number, from 0.
[[nodiscard]] TextStyle series_style(std::size_t series);

struct StyledText {
  std::string text;
  TextStyle style = TextStyle::plain;
};

/// One line of a terminal.
using StyledLine = std::vector<StyledText>;

/// How many colours a terminal has.
enum class TerminalColours { none, sixteen, many };

/// Of the environment: none with NO_COLOR or TERM=dumb, many where TERM or COLORTERM say so.
[[nodiscard]] TerminalColours terminal_colours();

/// The line as bytes: escape sequences around each piece that has a colour, none at all without
/// colours.
[[nodiscard]] std::string terminal_bytes(const StyledLine& line, TerminalColours colours);

namespace detail {

[[nodiscard]] std::size_t line_width(const StyledLine& line);

/// The beginning of `line` that fits into `columns`; a character is never cut in half.
[[nodiscard]] StyledLine fit_line(const StyledLine& line, std::size_t columns);

}  // namespace detail
}  // namespace accelerate
