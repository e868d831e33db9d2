// Text that came from other processes or from files, for errors and logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::detail {

/// Returns `text` in a form that is safe to print: at most `most_bytes` bytes, followed by "…" if
/// `text` is longer. Control characters except line ends and tabs become question marks, U+0080 to
/// U+009F no-break spaces. If the text is not valid UTF-8, every byte beyond ASCII becomes a
/// question mark.
[[nodiscard]] std::string untrusted_text(std::string_view text, std::size_t most_bytes = 4096);
[[nodiscard]] std::string untrusted_text(const std::vector<std::uint8_t>& bytes);

}  // namespace accelerate::detail
