// Bytes: as text, base64, numbers with their lowest byte first, sizes rounded up.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace accelerate::detail {

/// The least multiple of `multiple` that is not less than `value`. `value` must not be negative,
/// `multiple` must be positive, and their sum must be within T's range.
template <std::integral T>
[[nodiscard]] constexpr T round_up(T value, std::type_identity_t<T> multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace accelerate::detail

namespace accelerate {

template <std::unsigned_integral Integer>
void append_little_endian(std::string& out, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    out += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

}  // namespace accelerate

namespace accelerate::detail {

/// Returns the same bytes, seen as characters, without a copy.
[[nodiscard]] inline std::string_view byte_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[nodiscard]] std::string to_base64(std::string_view bytes);
/// Throws ConfigError for a character outside base64's alphabet. Padding at the end may be missing.
[[nodiscard]] std::string from_base64(std::string_view text);

}  // namespace accelerate::detail
