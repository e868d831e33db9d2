#include "accelerate/transformers/tokenizers/unicode/code_points.h"

#include <cstdint>
#include <utility>

namespace accelerate::detail {
namespace {

// Returns the first and last value that the byte after `lead` may have; {1, 0} if `lead` begins no
// character.
std::pair<unsigned, unsigned> second_bytes(unsigned lead) {
  if (lead < 0xC2 || lead > 0xF4) return {1, 0};
  if (lead == 0xE0) return {0xA0, 0xBF};
  if (lead == 0xED) return {0x80, 0x9F};
  if (lead == 0xF0) return {0x90, 0xBF};
  if (lead == 0xF4) return {0x80, 0x8F};
  return {0x80, 0xBF};
}

struct Start {
  std::size_t bytes;
  bool is_whole;
};

// Returns how many bytes at the beginning of `text` belong to one character.
Start start_of(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(text[i]));
  };
  if (byte(0) < 0x80) return {1, true};
  auto [low, high] = second_bytes(byte(0));
  const std::size_t width = width_of(text[0]);
  std::size_t bytes = 1;
  while (bytes < width && bytes < text.size() && byte(bytes) >= low && byte(bytes) <= high) {
    ++bytes;
    low = 0x80;
    high = 0xBF;
  }
  return {bytes, bytes == width && low <= high && byte(0) >= 0xC2};
}

}  // namespace

std::string replace_malformed(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Start start = start_of(bytes);
    if (start.is_whole) {
      text.append(bytes.substr(0, start.bytes));
    } else {
      append_utf8(text, 0xFFFD);
    }
    bytes.remove_prefix(start.bytes);
  }
  return text;
}

}  // namespace accelerate::detail
