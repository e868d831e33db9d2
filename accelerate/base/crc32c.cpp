#include "accelerate/base/crc32c.h"

#include <array>
#include <cstddef>

namespace accelerate {
namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 4>;

// tables[0] takes one byte through the register; tables[k] takes a byte followed by k zero bytes.
// With them four bytes go through in one step.
constexpr Tables make_tables() {
  constexpr std::uint32_t kReflectedPolynomial = 0x82F63B78;
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? kReflectedPolynomial : 0);
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

constexpr Tables kTables = make_tables();

std::uint32_t octet(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t value = ~std::uint32_t{0};
  for (; bytes.size() >= 4; bytes.remove_prefix(4)) {
    value ^= octet(bytes, 0) | octet(bytes, 1) << 8 | octet(bytes, 2) << 16 | octet(bytes, 3) << 24;
    value = kTables[3][value & 0xFF] ^ kTables[2][(value >> 8) & 0xFF] ^
            kTables[1][(value >> 16) & 0xFF] ^ kTables[0][value >> 24];
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value = (value >> 8) ^ kTables[0][(value ^ octet(bytes, i)) & 0xFF];
  }
  return ~value;
}

}  // namespace accelerate
