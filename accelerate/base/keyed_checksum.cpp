#include "accelerate/base/keyed_checksum.h"

#include <sys/random.h>

#include <bit>
#include <cerrno>

#include "accelerate/base/bytes.h"
#include "accelerate/base/hex.h"

namespace accelerate {
namespace {

// Reads a number of up to eight bytes, lowest first.
std::uint64_t number_in(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    number |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return number;
}

class SipHash {
 public:
  SipHash(std::uint64_t low, std::uint64_t high)
      : v0_(low ^ 0x736f6d6570736575),
        v1_(high ^ 0x646f72616e646f6d ^ 0xee),
        v2_(low ^ 0x6c7967656e657261),
        v3_(high ^ 0x7465646279746573) {}

  void take(std::uint64_t block) {
    v3_ ^= block;
    mix(2);
    v0_ ^= block;
  }

  [[nodiscard]] std::string finish() {
    std::string sum;
    v2_ ^= 0xee;
    mix(4);
    append_little_endian(sum, v0_ ^ v1_ ^ v2_ ^ v3_);
    v1_ ^= 0xdd;
    mix(4);
    append_little_endian(sum, v0_ ^ v1_ ^ v2_ ^ v3_);
    return sum;
  }

 private:
  void mix(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      v0_ += v1_;
      v1_ = std::rotl(v1_, 13) ^ v0_;
      v0_ = std::rotl(v0_, 32);
      v2_ += v3_;
      v3_ = std::rotl(v3_, 16) ^ v2_;
      v0_ += v3_;
      v3_ = std::rotl(v3_, 21) ^ v0_;
      v2_ += v1_;
      v1_ = std::rotl(v1_, 17) ^ v2_;
      v2_ = std::rotl(v2_, 32);
    }
  }

  std::uint64_t v0_, v1_, v2_, v3_;
};

}  // namespace

std::optional<std::string> random_digits() {
  std::array<unsigned char, 16> bits{};
  while (::getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size())) {
    if (errno != EINTR) return std::nullopt;
  }
  return detail::to_hex({reinterpret_cast<const char*>(bits.data()), bits.size()});
}

std::optional<ChecksumKey> key_from_digits(std::string_view digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  ChecksumKey key{};
  if (digits.size() != 2 * key.size()) return std::nullopt;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const char digit =
        digits[i] >= 'A' && digits[i] <= 'F' ? static_cast<char>(digits[i] + 32) : digits[i];
    const auto value = kDigits.find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    key[i / 2] = static_cast<std::uint8_t>(key[i / 2] << 4 | value);
  }
  return key;
}

std::string keyed_checksum(const ChecksumKey& key, std::string_view bytes) {
  const std::string_view all(reinterpret_cast<const char*>(key.data()), key.size());
  SipHash hash(number_in(all.substr(0, 8)), number_in(all.substr(8)));
  const auto length = static_cast<std::uint64_t>(bytes.size());
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) hash.take(number_in(bytes.substr(0, 8)));
  hash.take(number_in(bytes) | length << 56);
  return hash.finish();
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    different |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return different == 0;
}

}  // namespace accelerate
