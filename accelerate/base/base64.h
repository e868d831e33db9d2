// Base64: bytes as letters, by RFC 4648.
#pragma once

#include <string>
#include <string_view>

namespace accelerate::detail {

[[nodiscard]] std::string to_base64(std::string_view bytes);
/// Throws ConfigError for a character outside base64's alphabet. Padding at the end may be missing.
[[nodiscard]] std::string from_base64(std::string_view text);

}  // namespace accelerate::detail
