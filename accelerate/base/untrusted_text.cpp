#include "accelerate/base/untrusted_text.h"

#include "accelerate/base/utf8.h"

namespace accelerate::detail {

std::string untrusted_text(std::string_view text, std::size_t most_bytes) {
  const bool is_text = is_utf8(text);
  std::string shown(is_text ? fit_bytes(text, most_bytes) : text.substr(0, most_bytes));
  unsigned char before = 0;
  for (char& one : shown) {
    const auto byte = static_cast<unsigned char>(one);
    const bool is_control = (byte < 0x20 && one != '\n' && one != '\t') || byte == 0x7f;
    // U+0080 to U+009F, which some terminals obey too: the space U+00A0 takes their place.
    if (is_text && before == 0xc2 && byte < 0xa0 && byte >= 0x80) one = '\xa0';
    if (is_control || (byte >= 0x80 && !is_text)) one = '?';
    before = byte;
  }
  return shown.size() < text.size() ? shown + "…" : shown;
}

std::string untrusted_text(const std::vector<std::uint8_t>& bytes) {
  return untrusted_text(
      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace accelerate::detail
