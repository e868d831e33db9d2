#include "accelerate/transformers/tokenizers/text/byte_letters.h"

#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

constexpr bool is_printable(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

constexpr std::array<char32_t, 256> make_letters() {
  std::array<char32_t, 256> letters{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) letters[byte] = is_printable(byte) ? byte : next++;
  return letters;
}

constexpr auto kLetters = make_letters();
constexpr char32_t kEnd = 0x100 + 68;  // 68 bytes are not printable.

constexpr std::array<short, kEnd> make_bytes() {
  std::array<short, kEnd> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (unsigned byte = 0; byte < 256; ++byte) bytes[kLetters[byte]] = static_cast<short>(byte);
  return bytes;
}

constexpr auto kBytes = make_bytes();

}  // namespace

const std::array<char32_t, 256>& byte_letters() {
  return kLetters;
}

std::optional<unsigned char> byte_of_letter(char32_t letter) {
  if (letter >= kEnd || kBytes[letter] < 0) return std::nullopt;
  return static_cast<unsigned char>(kBytes[letter]);
}

std::string to_byte_letters(std::string_view bytes) {
  std::string letters;
  letters.reserve(bytes.size() + bytes.size() / 4);
  for (const char byte : bytes) append_utf8(letters, kLetters[static_cast<unsigned char>(byte)]);
  return letters;
}

std::optional<std::string> from_byte_letters(std::string_view letters) {
  std::string bytes;
  bytes.reserve(letters.size());
  for (std::size_t at = 0; at < letters.size();) {
    const auto byte = byte_of_letter(next_code_point(letters, at));
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
  }
  return bytes;
}

std::size_t count_byte_letters(std::string_view letters, std::size_t end) {
  return count_code_points(letters.substr(0, end));
}

}  // namespace accelerate::detail
