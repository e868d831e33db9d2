// Code points of text that is known to be well-formed UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// Returns how many bytes the character that begins with `lead` has.
[[nodiscard]] inline std::size_t width_of(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0x80) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

[[nodiscard]] inline std::size_t width_of(char32_t c) {
  if (c < 0x80) return 1;
  if (c < 0x800) return 2;
  return c < 0x10000 ? 3 : 4;
}

[[nodiscard]] inline bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

/// Returns the character that begins at `at`, and moves `at` past it.
[[nodiscard]] inline char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const char32_t lead = byte(0);
  const std::size_t width = width_of(text[at]);
  char32_t c = lead;
  if (width == 2) c = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
  if (width == 3) c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  if (width == 4) {
    c = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
  at += width;
  return c;
}

/// Returns the character that ends at `end`, and moves `end` to its beginning.
[[nodiscard]] inline char32_t previous_code_point(std::string_view text, std::size_t& end) {
  do --end;
  while (!begins_character(text[end]));
  std::size_t at = end;
  return next_code_point(text, at);
}

inline void append_utf8(std::string& text, char32_t c) {
  const auto add = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return add(c);
  if (c < 0x800) {
    add(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      add(0xE0 | c >> 12);
    } else {
      add(0xF0 | c >> 18);
      add(0x80 | (c >> 12 & 0x3F));
    }
    add(0x80 | (c >> 6 & 0x3F));
  }
  add(0x80 | (c & 0x3F));
}

[[nodiscard]] inline std::string to_utf8(char32_t c) {
  std::string text;
  append_utf8(text, c);
  return text;
}

[[nodiscard]] inline std::u32string to_utf32(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) out.push_back(next_code_point(text, at));
  return out;
}

[[nodiscard]] inline std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  for (const char byte : text) count += begins_character(byte) ? 1 : 0;
  return count;
}

/// Returns `bytes` with U+FFFD for each malformed part, as Python's
/// `bytes.decode(errors="replace")` and Rust's `from_utf8_lossy` do. A character that is cut short
/// becomes one U+FFFD, and so does every other malformed byte.
[[nodiscard]] std::string replace_malformed(std::string_view bytes);

}  // namespace accelerate::detail
