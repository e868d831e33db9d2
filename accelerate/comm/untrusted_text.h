// Text that came from other processes, for errors and logs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::detail {

/// `text` as a terminal may show it: at most 4,096 bytes, control characters but line ends and tabs
/// as question marks, and so is every byte beyond ASCII where the text is no UTF-8.
[[nodiscard]] std::string untrusted_text(std::string_view text);
[[nodiscard]] std::string untrusted_text(const std::vector<std::uint8_t>& bytes);

}  // namespace accelerate::detail
