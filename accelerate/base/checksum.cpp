#include "accelerate/base/checksum.h"

// xxHash is compiled into this file alone: a user of the library needs neither its header nor its
// library.
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <array>
#include <cstddef>
#include <cstdio>

namespace accelerate {

struct Checksum::State {
  XXH3_state_t xxh3;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh3);
}

Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

void Checksum::update(std::string_view bytes) {
  update(std::as_bytes(std::span(bytes)));
}

std::uint64_t Checksum::value() const {
  return XXH3_64bits_digest(&state_->xxh3);
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum(std::string_view bytes) {
  return checksum(std::as_bytes(std::span(bytes)));
}

std::string checksum_text(std::uint64_t value) {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(value));
  return digits.data();
}

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
