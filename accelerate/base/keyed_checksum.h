// SipHash-2-4 with 128 bits, a checksum that only a holder of its key can make.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace accelerate {

/// 128 bits.
using ChecksumKey = std::array<std::uint8_t, 16>;

/// Returns 128 random bits of the system's generator as 32 lower-case hexadecimal digits; nullopt
/// when the generator fails.
[[nodiscard]] std::optional<std::string> random_digits();

/// Reads a key from 32 hexadecimal digits, in any case; nullopt for every other text.
[[nodiscard]] std::optional<ChecksumKey> key_from_digits(std::string_view digits);

/// The SipHash-2-4 of `bytes`, 16 bytes: a message authentication code. Without the key nobody can
/// tell it from random bits. Cost: about 1 ns a byte. Source: Aumasson and Bernstein, "SipHash: a
/// fast short-input PRF" (2012), and https://github.com/veorq/SipHash for the 128-bit variant.
[[nodiscard]] std::string keyed_checksum(const ChecksumKey& key, std::string_view bytes);

/// Whether two texts are equal, in a time that does not reveal where they differ.
[[nodiscard]] bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace accelerate
