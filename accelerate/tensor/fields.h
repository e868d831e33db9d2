// Finds the members of a user's struct at compile time. Members beside the tensors can then be sent
// with them, although visit_tensors names only the tensors.
//
// Works for an aggregate (no constructors, no private members) of up to twelve members, without
// base classes and C arrays. A struct with a bit-field or an anonymous union does not compile here.
// Specialise kOnlyTensorsTravel (tensor/nested.h) for it, so that its members are not needed.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace accelerate::detail {

// Converts to any member's type, to test with which initialisers T can be made.
template <typename T>
struct AnyMemberOf {
  template <typename M>
    requires(!std::is_base_of_v<M, T>)
  operator M() const;  // NOLINT: implicit on purpose
};
template <typename T>
struct AnyBaseOf {
  template <typename M>
    requires(std::is_base_of_v<M, T> && !std::is_same_v<M, T>)
  operator M() const;  // NOLINT
};

template <typename T, std::size_t... I>
constexpr bool takes_members(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyMemberOf<T>{})...}; };
}

// The initialisers of an array's elements may be written without braces. If the first of them is
// `{}`, it initialises the whole array, and the remaining initialisers are too many.
template <typename T, std::size_t... Before, std::size_t... After>
constexpr bool is_one_member(std::index_sequence<Before...>, std::index_sequence<After...>) {
  return requires {
    T{(static_cast<void>(Before), AnyMemberOf<T>{})...,
      {},
      (static_cast<void>(After), AnyMemberOf<T>{})...};
  };
}

inline constexpr std::size_t kMostFields = 12;

template <typename T>
constexpr std::size_t count_fields() {
  constexpr std::size_t most = []<std::size_t... N>(std::index_sequence<N...>) {
    std::size_t count = 0;
    static_cast<void>(((takes_members<T>(std::make_index_sequence<N>()) ? count = N : 0), ...));
    return count;
  }(std::make_index_sequence<kMostFields + 2>());
  if constexpr (most > kMostFields || requires { T{AnyBaseOf<T>{}}; }) {
    return 0;
  } else {
    const bool no_arrays = []<std::size_t... I>(std::index_sequence<I...>) {
      return (is_one_member<T>(std::make_index_sequence<I>(),
                               std::make_index_sequence<most - 1 - I>()) &&
              ...);
    }(std::make_index_sequence<most>());
    return no_arrays ? most : 0;
  }
}

/// The number of members of T that can be named; 0 if the compiler cannot tell.
template <typename T>
inline constexpr std::size_t kFields = 0;
template <typename T>
  requires std::is_aggregate_v<T> && std::is_class_v<T>
inline constexpr std::size_t kFields<T> = count_fields<T>();

template <typename T>
concept HasFields = kFields<T> > 0;

/// Returns references to the members of `value`, in their order.
template <HasFields T>
[[nodiscard]] constexpr auto fields_of(T& value) {
  constexpr std::size_t count = kFields<T>;
  if constexpr (count == 1) {
    auto& [a] = value;
    return std::tie(a);
  } else if constexpr (count == 2) {
    auto& [a, b] = value;
    return std::tie(a, b);
  } else if constexpr (count == 3) {
    auto& [a, b, c] = value;
    return std::tie(a, b, c);
  } else if constexpr (count == 4) {
    auto& [a, b, c, d] = value;
    return std::tie(a, b, c, d);
  } else if constexpr (count == 5) {
    auto& [a, b, c, d, e] = value;
    return std::tie(a, b, c, d, e);
  } else if constexpr (count == 6) {
    auto& [a, b, c, d, e, f] = value;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (count == 7) {
    auto& [a, b, c, d, e, f, g] = value;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (count == 8) {
    auto& [a, b, c, d, e, f, g, h] = value;
    return std::tie(a, b, c, d, e, f, g, h);
  } else if constexpr (count == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = value;
    return std::tie(a, b, c, d, e, f, g, h, i);
  } else if constexpr (count == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = value;
    return std::tie(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (count == 11) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = value;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k);
  } else {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = value;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
  }
}

/// The types of the members, as a tuple of references.
template <HasFields T>
using FieldsOf = decltype(fields_of(std::declval<T&>()));

template <HasFields T, typename Fn>
void for_each_field(T& value, Fn&& fn) {
  std::apply([&fn](auto&... field) { (fn(field), ...); }, fields_of(value));
}

}  // namespace accelerate::detail
