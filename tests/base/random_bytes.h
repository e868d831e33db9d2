// Bytes that are nowhere alike, at a chosen place in their page.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>

#include "accelerate/base/aligned_bytes.h"

namespace accelerate::testing {

/// Returns `size` bytes, other ones for another seed.
inline AlignedBytes random_bytes(std::size_t size, std::uint32_t seed) {
  AlignedBytes all(size);
  std::mt19937 random(seed);
  for (std::size_t i = 0; i < size; i += sizeof(std::uint32_t)) {
    const auto number = static_cast<std::uint32_t>(random());
    std::memcpy(all.data() + i, &number, std::min(sizeof(number), size - i));
  }
  return all;
}

/// Memory of `size` bytes that begins `place` bytes after the start of a page.
class PlacedBytes {
 public:
  PlacedBytes(std::size_t size, std::size_t place) : all_(size + place), place_(place) {}
  [[nodiscard]] std::span<std::byte> bytes() const { return all_.bytes().subspan(place_); }

 private:
  AlignedBytes all_;
  std::size_t place_;
};

}  // namespace accelerate::testing
