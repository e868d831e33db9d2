#include "accelerate/base/crc32.h"

#include <array>
#include <cstddef>

namespace accelerate {
namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 4>;

// tables[0] takes one byte through the register; tables[k] takes a byte followed by k zero bytes.
// With them four bytes go through in one step.
constexpr Tables make_tables(std::uint32_t reflected_polynomial) {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? reflected_polynomial : 0);
    }
    tables[0][byte] = value;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kCastagnoli = make_tables(0x82F63B78);
constexpr Tables kZip = make_tables(0xEDB88320);

std::uint32_t octet(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

std::uint32_t checksum(std::string_view bytes, std::uint32_t before, const Tables& tables) {
  std::uint32_t value = ~before;
  for (; bytes.size() >= 4; bytes.remove_prefix(4)) {
    value ^= octet(bytes, 0) | octet(bytes, 1) << 8 | octet(bytes, 2) << 16 | octet(bytes, 3) << 24;
    value = tables[3][value & 0xFF] ^ tables[2][(value >> 8) & 0xFF] ^
            tables[1][(value >> 16) & 0xFF] ^ tables[0][value >> 24];
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value = (value >> 8) ^ tables[0][(value ^ octet(bytes, i)) & 0xFF];
  }
  return ~value;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  return checksum(bytes, 0, kCastagnoli);
}

std::uint32_t crc32(std::string_view bytes, std::uint32_t before) {
  return checksum(bytes, before, kZip);
}

}  // namespace accelerate
