#include "accelerate/base/untrusted_text.h"

#include "accelerate/base/utf8.h"

namespace accelerate::detail {
namespace {

template <typename IsKept>
std::string safe_copy(std::string_view text, std::size_t most_bytes, const IsKept& is_kept) {
  std::string shown;
  while (!text.empty()) {
    std::string_view rest = text;
    const auto c = take_code_point(rest);
    const std::string_view bytes = text.substr(0, text.size() - rest.size());
    const std::string_view safe = c && is_kept(*c) ? bytes : "?";
    if (safe.size() > most_bytes - shown.size()) return shown + "…";
    shown += safe;
    text = rest;
  }
  return shown;
}

}  // namespace

bool is_obeyed_by_terminals(char32_t c) {
  const bool is_control = c < 0x20 || (c >= 0x7f && c < 0xa0);
  const bool turns_text = c == 0x061c || c == 0x200e || c == 0x200f ||
                          (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x206f);
  const bool separates_lines = c == 0x2028 || c == 0x2029;
  return is_control || turns_text || separates_lines;
}

std::string untrusted_text(std::string_view text, std::size_t most_bytes) {
  return safe_copy(text, most_bytes,
                   [](char32_t c) { return c == '\n' || c == '\t' || !is_obeyed_by_terminals(c); });
}

std::string untrusted_text(const std::vector<std::uint8_t>& bytes) {
  return untrusted_text(
      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::string untrusted_line(std::string_view text) {
  return safe_copy(text, std::string_view::npos,
                   [](char32_t c) { return !is_obeyed_by_terminals(c); });
}

}  // namespace accelerate::detail
