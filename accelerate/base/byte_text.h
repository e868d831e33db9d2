// Bytes of a file as text.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace accelerate::detail {

/// Returns the same bytes, seen as characters, without a copy.
[[nodiscard]] inline std::string_view byte_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace accelerate::detail
