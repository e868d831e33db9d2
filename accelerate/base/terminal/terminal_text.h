// Styled text for a terminal, independent of the escape sequences that show it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace accelerate {

/// The role of a piece of text, which decides its colour. `series` to `series6` are the colours of
/// curves and of the parts of a step.
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

/// Returns the style of curve or part number `series`, counted from 0.
[[nodiscard]] TextStyle series_style(std::size_t series);

struct StyledText {
  std::string text;
  TextStyle style = TextStyle::plain;
};

/// One line of a terminal.
using StyledLine = std::vector<StyledText>;

/// How many colours a terminal can show.
enum class TerminalColours { none, sixteen, many };

/// Reads the colours from the environment: none with NO_COLOR or TERM=dumb; many if TERM or
/// COLORTERM say so.
[[nodiscard]] TerminalColours terminal_colours();

/// Returns the line as bytes, with escape sequences around each piece that has a style. Without
/// colours there are no escape sequences.
[[nodiscard]] std::string terminal_bytes(const StyledLine& line, TerminalColours colours);

namespace detail {

[[nodiscard]] std::size_t line_width(const StyledLine& line);

/// Returns the beginning of `line` that fits into `columns`; a character is never split.
[[nodiscard]] StyledLine fit_line(const StyledLine& line, std::size_t columns);

}  // namespace detail
}  // namespace accelerate
