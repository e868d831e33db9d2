// What an operator does with its arguments, as far as its schema says it.
#pragma once

#include <ATen/core/function_schema.h>

#include <cstdint>

namespace accelerate::compat {

struct OperatorTraits {
  /// It reads no element: it makes views, or tensors of the same shape.
  bool only_makes_views = false;
  std::uint64_t written = 0;  ///< Bit i: argument i is changed in place.

  [[nodiscard]] bool writes(std::size_t argument) const {
    return argument < 64 && (written >> argument & 1) != 0;
  }
};

/// Cost: a walk over the arguments; keep what it returns.
[[nodiscard]] OperatorTraits read_traits(const c10::FunctionSchema& schema);

}  // namespace accelerate::compat
