// Rounds sizes and offsets up to multiples: of a cache line, a page, a slice.
#pragma once

#include <concepts>
#include <type_traits>

namespace accelerate::detail {

/// The least multiple of `multiple` that is not less than `value`. `value` must not be negative,
/// `multiple` must be positive, and their sum must be within T's range.
template <std::integral T>
[[nodiscard]] constexpr T round_up(T value, std::type_identity_t<T> multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace accelerate::detail
