// Text that came from other processes, from files or over the network, for errors and logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::detail {

/// Whether a terminal obeys `c` instead of showing it: control characters, line ends and tabs among
/// them, marks that change the direction of text, and line separators.
[[nodiscard]] bool is_obeyed_by_terminals(char32_t c);

/// Returns `text` in a form that is safe to print: at most `most_bytes` bytes, followed by "…" if
/// there is more. A question mark takes the place of what a terminal obeys, except line ends and
/// tabs, and of each byte that is not UTF-8.
[[nodiscard]] std::string untrusted_text(std::string_view text, std::size_t most_bytes = 4096);
[[nodiscard]] std::string untrusted_text(const std::vector<std::uint8_t>& bytes);

/// Like untrusted_text(), in one line: line ends and tabs become question marks too.
[[nodiscard]] std::string untrusted_line(std::string_view text);

}  // namespace accelerate::detail
