// Comma-separated values as in RFC 4180, with "\n" as line end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::detail {

/// Returns a cell for `text`, quoted where a reader would otherwise misread it. An empty text
/// becomes `""`, so that it differs from a cell without a value.
[[nodiscard]] std::string csv_text(std::string_view text);

/// Returns the cells of the first line of `text`, without quotes.
[[nodiscard]] std::vector<std::string> csv_header(std::string_view text);

/// Returns the length of the whole rows in `text`: up to the last line end outside quotes.
[[nodiscard]] std::size_t csv_whole_rows(std::string_view text);

/// Returns `text` with its first row replaced by `header`, a row with its line end, and with
/// `new_columns` empty cells at the end of every other row.
[[nodiscard]] std::string csv_widen(std::string_view text, const std::string& header,
                                    std::size_t new_columns);

}  // namespace accelerate::detail
