// Bytes spelled as letters, as GPT-2 does it, so that a vocabulary of any bytes is text.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// The letter of each byte: printable Latin-1 is its own, the others are U+0100 and on.
[[nodiscard]] const std::array<char32_t, 256>& byte_letters();
/// nullopt for what is no letter of a byte.
[[nodiscard]] std::optional<unsigned char> byte_of_letter(char32_t letter);

[[nodiscard]] std::string to_byte_letters(std::string_view bytes);
/// nullopt when `letters` holds anything else.
[[nodiscard]] std::optional<std::string> from_byte_letters(std::string_view letters);
/// How many letters begin before byte `end`.
[[nodiscard]] std::size_t count_byte_letters(std::string_view letters, std::size_t end);

}  // namespace accelerate::detail
