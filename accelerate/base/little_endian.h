// Numbers as bytes, lowest first, whatever the machine's own order.
#pragma once

#include <concepts>
#include <string>

namespace accelerate {

template <std::unsigned_integral Integer>
void append_little_endian(std::string& out, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    out += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

}  // namespace accelerate
