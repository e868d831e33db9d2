#include "accelerate/base/terminal/terminal_text.h"

#include <array>

#include "accelerate/base/environment.h"
#include "accelerate/base/utf8.h"

namespace accelerate {
namespace {

constexpr std::size_t kStyles = 13;
constexpr std::size_t kSeriesStyles = 6;

// Parameters of the escape sequence for each style; "" for none.
constexpr std::array<const char*, kStyles> kOfSixteen = {"",   "1",  "2",  "32", "36", "33", "31",
                                                         "34", "33", "32", "35", "36", "37"};
constexpr std::array<const char*, kStyles> kOfMany = {
    "",        "1",        "2",       "38;5;78",  "38;5;75",  "38;5;179", "38;5;203",
    "38;5;75", "38;5;215", "38;5;78", "38;5;141", "38;5;211", "38;5;145"};

}  // namespace

TextStyle series_style(std::size_t series) {
  return static_cast<TextStyle>(static_cast<std::size_t>(TextStyle::series) +
                                series % kSeriesStyles);
}

TerminalColours terminal_colours() {
  const std::string term = env("TERM").value_or("");
  if (term.empty() || term == "dumb" || !env("NO_COLOR").value_or("").empty())
    return TerminalColours::none;
  const std::string said = term + " " + env("COLORTERM").value_or("");
  for (const char* word : {"256color", "truecolor", "24bit", "direct"})
    if (said.find(word) != std::string::npos) return TerminalColours::many;
  return TerminalColours::sixteen;
}

std::string terminal_bytes(const StyledLine& line, TerminalColours colours) {
  const auto& table = colours == TerminalColours::many ? kOfMany : kOfSixteen;
  std::string bytes;
  for (const auto& piece : line) {
    const std::string_view code = table[static_cast<std::size_t>(piece.style)];
    if (colours == TerminalColours::none || code.empty()) {
      bytes += piece.text;
    } else {
      bytes.append("\x1b[").append(code).append("m").append(piece.text).append("\x1b[0m");
    }
  }
  return bytes;
}

namespace detail {

std::size_t line_width(const StyledLine& line) {
  std::size_t width = 0;
  for (const auto& piece : line) width += display_width(piece.text);
  return width;
}

StyledLine fit_line(const StyledLine& line, std::size_t columns) {
  StyledLine fitting;
  for (const auto& piece : line) {
    const auto text = fit_columns(piece.text, columns);
    columns -= display_width(text);
    if (!text.empty()) fitting.push_back({std::string(text), piece.style});
    if (text.size() < piece.text.size()) break;
  }
  return fitting;
}

}  // namespace detail
}  // namespace accelerate
