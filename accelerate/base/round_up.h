// Sizes and offsets that begin at multiples: of a cache line, a page, a slice.
#pragma once

#include <concepts>
#include <type_traits>

namespace accelerate::detail {

/// The least multiple of `multiple` that is not less than `value`; both from 0 on, their sum within
/// T's range.
template <std::integral T>
[[nodiscard]] constexpr T round_up(T value, std::type_identity_t<T> multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace accelerate::detail
