// Texts and numbers of a run as people read them. What a log says is someone else's text: nothing
// of it reaches a page or a terminal unchecked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// `text` as a line that is safe to show: at most `most_bytes`, well-formed UTF-8, blanks for line
/// ends and tabs; U+FFFD for control characters, for what turns the direction of text, and for
/// bytes that are no UTF-8.
[[nodiscard]] std::string plain_line(std::string_view text, std::size_t most_bytes = 2'000);

/// plain_line() with the characters that HTML and XML give a meaning written as entities.
[[nodiscard]] std::string html_text(std::string_view text, std::size_t most_bytes = 2'000);

/// plain_line() with '?' for all but ASCII.
[[nodiscard]] std::string ascii_line(std::string_view text, std::size_t most_bytes = 2'000);

/// Four significant digits, no zeros at the end: "0.4123", "5e-05", "12,345", "nan".
[[nodiscard]] std::string number_text(double value);

/// "1,234,567".
[[nodiscard]] std::string grouped_text(std::int64_t value);

/// Three digits and a power of 1000: "66.4M", "1.2k", "999".
[[nodiscard]] std::string scaled_text(double value);

/// "0.42 s", "41 s", "3 min 05 s", "2 h 05 min", "3 d 04 h".
[[nodiscard]] std::string duration_text(double seconds);

/// "2026-11-25 07:46:07 UTC"; "" where there is no time.
[[nodiscard]] std::string time_text(std::optional<double> unix_seconds);

}  // namespace accelerate::detail
