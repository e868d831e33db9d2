#include "accelerate/base/hex.h"

#include <random>

namespace accelerate::detail {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

}  // namespace

std::string to_hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {kHexDigits[byte >> 4], kHexDigits[byte & 15]};
  }
  return text;
}

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of(kHexDigits) == std::string_view::npos;
}

std::string random_hex() {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 16; ++i) text += kHexDigits[random() & 15];
  return text;
}

}  // namespace accelerate::detail
