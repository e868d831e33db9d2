// Hexadecimal digits: of checksums, and in names of files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// Returns two lower-case digits for each byte.
[[nodiscard]] std::string to_hex(std::string_view bytes);

/// Whether `text` consists of this number of lower-case digits.
[[nodiscard]] bool is_hex(std::string_view text, std::size_t digits);

/// Returns 16 random digits, for names that nobody else has.
[[nodiscard]] std::string random_hex();

}  // namespace accelerate::detail
