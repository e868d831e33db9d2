// Compares the keys and lengths of two nested values. If they are equal, the k-th tensors of both
// belong together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>

#include "accelerate/tensor/nested.h"

namespace accelerate::detail {

template <typename T>
concept MapLike = requires { typename T::mapped_type; };
template <typename T>
concept DictionaryLike = requires(T& value) { value.begin()->key(); };
template <typename T>
concept Product = requires { std::tuple_size<T>::value; } && !std::ranges::range<T>;

/// Whether containers have the same keys and lengths, at any depth. Does not look into user
/// structs. Local. Cost: nothing for tensors and structs, otherwise one visit of each key.
template <typename T>
[[nodiscard]] bool same_keys(T& one, T& other) {
  if constexpr (!Nested<T> || std::is_same_v<T, at::Tensor>) {
    return true;
  } else if constexpr (Product<T>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return (same_keys(std::get<I>(one), std::get<I>(other)) && ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>{});
  } else if constexpr (MapLike<T>) {
    return std::ranges::equal(one, other, [](auto& left, auto& right) {
      return left.first == right.first && same_keys(left.second, right.second);
    });
  } else if constexpr (DictionaryLike<T>) {
    return std::ranges::equal(one, other, [](auto& left, auto& right) {
      return left.key() == right.key() && same_keys(left.value(), right.value());
    });
  } else if constexpr (std::ranges::range<T>) {
    return std::ranges::equal(one, other,
                              [](auto& left, auto& right) { return same_keys(left, right); });
  } else if constexpr (requires { one.has_value(); }) {
    return one.has_value() == other.has_value() && (!one.has_value() || same_keys(*one, *other));
  } else {
    return true;
  }
}

}  // namespace accelerate::detail
