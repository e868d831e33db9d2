// How ranks divide the bytes of a tensor among themselves.
#pragma once

#include <algorithm>
#include <cstddef>

#include "accelerate/comm/shared_memory/control_block.h"

namespace accelerate::detail {

/// Rounds `bytes` down to whole cache lines, at least one.
[[nodiscard]] constexpr std::size_t whole_lines(std::size_t bytes) {
  return std::max(kCacheLine, bytes / kCacheLine * kCacheLine);
}

struct Slice {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Returns the part of `bytes` that belongs to `rank`. Parts are equal numbers of whole cache
/// lines; the last parts may be shorter or empty.
[[nodiscard]] constexpr Slice slice(std::size_t bytes, int rank, int size) {
  const std::size_t ranks = static_cast<std::size_t>(size);
  const std::size_t share = (bytes + ranks * kCacheLine - 1) / (ranks * kCacheLine) * kCacheLine;
  const auto edge = [&](int at) { return std::min(bytes, static_cast<std::size_t>(at) * share); };
  return {edge(rank), edge(rank + 1)};
}

}  // namespace accelerate::detail
