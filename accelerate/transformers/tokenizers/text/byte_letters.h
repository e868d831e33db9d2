// Bytes spelled as letters, as GPT-2 does it, so that a vocabulary of any bytes is text.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// The letter of each byte: printable Latin-1 stands for itself, other bytes are U+0100 and up.
[[nodiscard]] const std::array<char32_t, 256>& byte_letters();
/// Returns the byte that `letter` stands for; nullopt if there is none.
[[nodiscard]] std::optional<unsigned char> byte_of_letter(char32_t letter);

[[nodiscard]] std::string to_byte_letters(std::string_view bytes);
/// Returns the bytes; nullopt if `letters` holds a character that is not the letter of a byte.
[[nodiscard]] std::optional<std::string> from_byte_letters(std::string_view letters);
/// Returns how many letters begin before byte `end`.
[[nodiscard]] std::size_t count_byte_letters(std::string_view letters, std::size_t end);

}  // namespace accelerate::detail
