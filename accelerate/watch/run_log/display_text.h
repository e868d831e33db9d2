// Texts and numbers of a run, formatted for people. The text in a log comes from somebody else, so
// none of it reaches a page or a terminal unchecked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// Returns `text` as one line that is safe to show: at most `most_bytes` of well-formed UTF-8. Line
/// ends and tabs become blanks. Control characters, marks that change the direction of text, and
/// bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string plain_line(std::string_view text, std::size_t most_bytes = 2'000);

/// Returns plain_line() with the special characters of HTML and XML written as entities.
[[nodiscard]] std::string html_text(std::string_view text, std::size_t most_bytes = 2'000);

/// Returns plain_line() with '?' for every character outside ASCII.
[[nodiscard]] std::string ascii_line(std::string_view text, std::size_t most_bytes = 2'000);

/// Returns four significant digits without trailing zeros, or whole numbers from 10,000 on:
/// "0.4123", "5e-05", "12,345", "nan".
[[nodiscard]] std::string number_text(double value);

/// "1,234,567".
[[nodiscard]] std::string grouped_text(std::int64_t value);

/// Returns up to three digits and a suffix for the power of 1000: "66.4M", "1.2k", "999".
[[nodiscard]] std::string scaled_text(double value);

/// "0.42 s", "41 s", "3 min 05 s", "2 h 05 min", "3 d 04 h".
[[nodiscard]] std::string duration_text(double seconds);

/// Returns "2026-11-25 07:46:07 UTC"; "" without a time.
[[nodiscard]] std::string time_text(std::optional<double> unix_seconds);

}  // namespace accelerate::detail
