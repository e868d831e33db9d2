// Text that came from other processes, for errors and logs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::detail {

/// Returns `text` in a form that is safe to print: at most 4,096 bytes, followed by "…" if `text`
/// is longer. Control characters except line ends and tabs become question marks. If the text is
/// not valid UTF-8, so does every byte beyond ASCII.
[[nodiscard]] std::string untrusted_text(std::string_view text);
[[nodiscard]] std::string untrusted_text(const std::vector<std::uint8_t>& bytes);

}  // namespace accelerate::detail
