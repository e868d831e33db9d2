// The words by which config.json names types of weights.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace accelerate::detail {

/// The first of a type is the one that is written.
inline constexpr std::array<std::pair<std::string_view, at::ScalarType>, 7> kDtypeNames{{
    {"float32", at::kFloat},
    {"bfloat16", at::kBFloat16},
    {"float16", at::kHalf},
    {"float64", at::kDouble},
    {"float", at::kFloat},
    {"half", at::kHalf},
    {"double", at::kDouble},
}};

[[nodiscard]] constexpr std::optional<at::ScalarType> dtype_named(std::string_view name) {
  for (const auto& [known, type] : kDtypeNames) {
    if (known == name) return type;
  }
  return std::nullopt;
}

/// Returns the name of `type`; empty if it has none.
[[nodiscard]] constexpr std::string_view name_of_dtype(at::ScalarType type) {
  for (const auto& [name, known] : kDtypeNames) {
    if (known == type) return name;
  }
  return {};
}

}  // namespace accelerate::detail
