// UTF-8: whether text is valid, and how wide a terminal shows it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// Takes the first code point off `text`. Returns nullopt and takes one byte where the bytes are
/// not well-formed UTF-8 (overlong forms, surrogates and values above U+10FFFF are not). `text`
/// must not be empty.
std::optional<char32_t> take_code_point(std::string_view& text);

[[nodiscard]] bool is_utf8(std::string_view text);

/// Columns of a terminal that one code point takes: 0 for combining marks, joiners and control
/// characters, 2 for East Asian wide characters and emoji, else 1. Source: the ranges of Unicode 15
/// (categories Mn, Me, Cf; East_Asian_Width W and F), rounded outward to blocks.
[[nodiscard]] std::size_t display_width(char32_t code_point);

/// Columns of a whole text; a malformed byte counts one. Escape sequences that only set colour
/// ("\x1b[…m") count none.
[[nodiscard]] std::size_t display_width(std::string_view text);

/// The longest prefix of `text`, which must be UTF-8, of at most `bytes` bytes. A character is
/// never cut in half.
[[nodiscard]] std::string_view fit_bytes(std::string_view text, std::size_t bytes);

/// The longest prefix of `text` that fits into `columns`; a character is never cut in half.
[[nodiscard]] std::string_view fit_columns(std::string_view text, std::size_t columns);

/// Breaks `text` at blanks into lines of at most `columns`; a longer word is cut. Returns at least
/// one line, which may be empty.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

/// Returns the lines of wrapped() as one text. Each line begins with `indent` blanks, which count
/// towards `columns`, and ends with a line end.
[[nodiscard]] std::string indented(std::string_view text, std::size_t indent, std::size_t columns);

}  // namespace accelerate
