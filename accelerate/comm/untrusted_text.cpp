#include "accelerate/comm/untrusted_text.h"

#include "accelerate/base/utf8.h"

namespace accelerate::detail {

std::string untrusted_text(std::string_view text) {
  constexpr std::size_t kMostBytes = 4096;
  const bool is_text = is_utf8(text);
  std::string shown(is_text ? fit_bytes(text, kMostBytes) : text.substr(0, kMostBytes));
  for (char& one : shown) {
    const auto byte = static_cast<unsigned char>(one);
    const bool is_control = (byte < 0x20 && one != '\n' && one != '\t') || byte == 0x7f;
    if (is_control || (byte >= 0x80 && !is_text)) one = '?';
  }
  return shown.size() < text.size() ? shown + "…" : shown;
}

std::string untrusted_text(const std::vector<std::uint8_t>& bytes) {
  return untrusted_text(
      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace accelerate::detail
