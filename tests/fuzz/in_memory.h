// One file in memory, for fuzzers: an allocation of exactly its size, so that the address sanitizer
// sees one byte too many.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/formats/safetensors_support.h"

namespace accelerate::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : files_({reinterpret_cast<const char*>(data), size}) {}

  [[nodiscard]] FileSystem& files() { return files_; }

 private:
  testing::OneFile files_;
};

/// Reads every byte, so that one beyond the file is noticed. Never optimised away.
inline void read_all(std::span<const std::byte> bytes) {
  [[maybe_unused]] static volatile unsigned sink;
  unsigned sum = 0;
  for (const std::byte byte : bytes) sum += std::to_integer<unsigned>(byte);
  sink = sum;
}

}  // namespace accelerate::fuzz
