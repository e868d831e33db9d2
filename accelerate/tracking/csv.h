// Comma-separated values as RFC 4180 has them, with "\n" as line end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::detail {

/// A cell for `text`, quoted where a reader would otherwise see something else; an empty text is
/// `""`, so that it differs from a cell without a value.
[[nodiscard]] std::string csv_text(std::string_view text);

/// The cells of the first line of `text`, quotes removed.
[[nodiscard]] std::vector<std::string> csv_header(std::string_view text);

/// The length of the whole rows in `text`: up to the last line end that is not inside quotes.
[[nodiscard]] std::size_t csv_whole_rows(std::string_view text);

/// `text` with `header`, a row with its line end, instead of its first row and so many empty cells
/// at the end of every other.
[[nodiscard]] std::string csv_widen(std::string_view text, const std::string& header,
                                    std::size_t new_columns);

}  // namespace accelerate::detail
