#include "accelerate/base/checksum.h"

// xxHash is compiled into this file alone: a user of the library needs neither its header nor its
// library.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
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

}  // namespace accelerate
