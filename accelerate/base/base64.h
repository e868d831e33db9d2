// Bytes as letters, as RFC 4648 spells them.
#pragma once

#include <string>
#include <string_view>

namespace accelerate::detail {

[[nodiscard]] std::string to_base64(std::string_view bytes);
/// Throws ConfigError for a letter that is none of base64's; padding at the end may be missing.
[[nodiscard]] std::string from_base64(std::string_view text);

}  // namespace accelerate::detail
