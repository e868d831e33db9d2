// UTF-8: whether text is, and how wide a terminal shows it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// Takes the first code point off `text`. nullopt, with one byte taken, where the bytes are no
/// well-formed UTF-8 (overlong forms, surrogates and values above U+10FFFF count as such). `text`
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

/// The longest beginning of `text`, which is UTF-8, of at most so many bytes; a character is never
/// cut in half.
[[nodiscard]] std::string_view fit_bytes(std::string_view text, std::size_t bytes);

/// The longest beginning of `text` that fits into `columns`; a character is never cut in half.
[[nodiscard]] std::string_view fit_columns(std::string_view text, std::size_t columns);

/// `text` in lines of at most `columns`, broken at blanks; a longer word is cut. At least one line,
/// which may be empty.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

/// The same as one text: each line behind `indent` blanks, of at most `columns` with them, and with
/// a line end.
[[nodiscard]] std::string indented(std::string_view text, std::size_t indent, std::size_t columns);

}  // namespace accelerate
