// What a reduction is, element by element and with no thought of speed.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "accelerate/comm/reduce_op.h"

namespace accelerate::testing {

/// A bool whose byte may be anything, as a view of other memory gives it.
struct Truth {
  unsigned char byte;
};

template <typename T>
constexpr bool kNarrowFloat = std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>;
template <typename T>
constexpr bool kFloating = std::is_floating_point_v<T> || kNarrowFloat<T>;

template <typename V>
V combine_ordered(V a, V b, ReduceOp op) {
  if (a != a) return a;
  if (b != b) return b;
  return op == ReduceOp::min ? std::min(a, b) : std::max(a, b);
}

template <typename V>
V combine_floating(V a, V b, ReduceOp op) {
  if (op == ReduceOp::min || op == ReduceOp::max) return combine_ordered(a, b, op);
  return op == ReduceOp::product ? a * b : a + b;
}

template <typename T>
T combine_integers(T a, T b, ReduceOp op) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  switch (op) {
    case ReduceOp::min:
    case ReduceOp::max:
      return combine_ordered(a, b, op);
    case ReduceOp::product:
      return static_cast<T>(x * y);
    case ReduceOp::band:
      return static_cast<T>(x & y);
    case ReduceOp::bor:
      return static_cast<T>(x | y);
    case ReduceOp::bxor:
      return static_cast<T>(x ^ y);
    default:
      return static_cast<T>(x + y);
  }
}

inline bool combine_truths(bool a, bool b, ReduceOp op) {
  if (op == ReduceOp::bxor) return a != b;
  const bool any = op == ReduceOp::sum || op == ReduceOp::max || op == ReduceOp::bor;
  return any ? a || b : a && b;
}

/// `op` of `values`, the ranks' elements, in their order; 16-bit floats are rounded once.
template <typename T>
T expected_element(const std::vector<T>& values, ReduceOp op) {
  if constexpr (std::is_same_v<T, Truth>) {
    bool result = values[0].byte != 0;
    for (std::size_t i = 1; i < values.size(); ++i) {
      result = combine_truths(result, values[i].byte != 0, op);
    }
    return {result};
  } else if constexpr (kFloating<T>) {
    using V = std::conditional_t<kNarrowFloat<T>, float, T>;
    V result = static_cast<V>(values[0]);
    for (std::size_t i = 1; i < values.size(); ++i) {
      result = combine_floating(result, static_cast<V>(values[i]), op);
    }
    return static_cast<T>(op == ReduceOp::mean ? result / static_cast<V>(values.size()) : result);
  } else {
    T result = values[0];
    for (std::size_t i = 1; i < values.size(); ++i) {
      result = combine_integers(result, values[i], op);
    }
    const auto number = static_cast<std::int64_t>(values.size());
    return op == ReduceOp::mean ? static_cast<T>(result / number) : result;
  }
}

}  // namespace accelerate::testing
