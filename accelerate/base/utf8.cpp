#include "accelerate/base/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "accelerate/base/text.h"

namespace accelerate {
namespace {

struct Range {
  char32_t first, last;
};

constexpr std::array kZeroWide = {
    Range{0x0000, 0x001f}, Range{0x007f, 0x009f}, Range{0x00ad, 0x00ad},   Range{0x0300, 0x036f},
    Range{0x0483, 0x0489}, Range{0x0591, 0x05bd}, Range{0x0610, 0x061a},   Range{0x064b, 0x065f},
    Range{0x06d6, 0x06dc}, Range{0x093c, 0x093c}, Range{0x0941, 0x0948},   Range{0x094d, 0x094d},
    Range{0x0e31, 0x0e31}, Range{0x0e34, 0x0e3a}, Range{0x0e47, 0x0e4e},   Range{0x1ab0, 0x1aff},
    Range{0x1dc0, 0x1dff}, Range{0x200b, 0x200f}, Range{0x202a, 0x202e},   Range{0x2060, 0x2064},
    Range{0x20d0, 0x20f0}, Range{0x302a, 0x302d}, Range{0x3099, 0x309a},   Range{0xfe00, 0xfe0f},
    Range{0xfe20, 0xfe2f}, Range{0xfeff, 0xfeff}, Range{0x1f3fb, 0x1f3ff}, Range{0xe0001, 0xe0fff},
};

constexpr std::array kTwoWide = {
    Range{0x1100, 0x115f},   Range{0x231a, 0x231b},   Range{0x23e9, 0x23ec},
    Range{0x25fd, 0x25fe},   Range{0x2614, 0x2615},   Range{0x2648, 0x2653},
    Range{0x26a1, 0x26a1},   Range{0x26bd, 0x26be},   Range{0x26c4, 0x26c5},
    Range{0x2705, 0x2705},   Range{0x270a, 0x270b},   Range{0x2728, 0x2728},
    Range{0x274c, 0x274e},   Range{0x2753, 0x2757},   Range{0x2795, 0x2797},
    Range{0x2b1b, 0x2b1c},   Range{0x2b50, 0x2b55},   Range{0x2e80, 0x303e},
    Range{0x3041, 0x33ff},   Range{0x3400, 0x4dbf},   Range{0x4e00, 0xa4cf},
    Range{0xa960, 0xa97f},   Range{0xac00, 0xd7a3},   Range{0xf900, 0xfaff},
    Range{0xfe30, 0xfe6f},   Range{0xff00, 0xff60},   Range{0xffe0, 0xffe6},
    Range{0x1f300, 0x1f64f}, Range{0x1f680, 0x1f6ff}, Range{0x1f7e0, 0x1f7eb},
    Range{0x1f900, 0x1f9ff}, Range{0x1fa70, 0x1faff}, Range{0x20000, 0x3fffd},
};

bool contains(const auto& ranges, char32_t code_point) {
  const auto after = std::ranges::upper_bound(ranges, code_point, {}, &Range::first);
  return after != ranges.begin() && code_point <= std::prev(after)->last;
}

struct Lead {
  std::size_t length;
  char32_t bits;
  char32_t least;  // Below this the form is overlong.
};

std::optional<Lead> lead_of(unsigned char byte) {
  if (byte < 0x80) return Lead{1, byte, 0};
  if (byte >= 0xc2 && byte < 0xe0) return Lead{2, byte & 0x1fU, 0x80};
  if (byte >= 0xe0 && byte < 0xf0) return Lead{3, byte & 0x0fU, 0x800};
  if (byte >= 0xf0 && byte < 0xf5) return Lead{4, byte & 0x07U, 0x10000};
  return std::nullopt;
}

std::optional<char32_t> code_point_at(std::string_view text, const Lead& lead) {
  if (text.size() < lead.length) return std::nullopt;
  char32_t value = lead.bits;
  for (std::size_t i = 1; i < lead.length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) != 0x80) return std::nullopt;
    value = value << 6 | (byte & 0x3fU);
  }
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < lead.least || value > 0x10ffff || surrogate) return std::nullopt;
  return value;
}

// The length of a colour sequence at the start of `text`, 0 when there is none.
std::size_t colour_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

// Takes one character or colour sequence off `text` and returns its columns.
std::size_t take_width(std::string_view& text) {
  if (const std::size_t length = colour_length(text)) {
    text.remove_prefix(length);
    return 0;
  }
  const auto code_point = take_code_point(text);
  return code_point ? display_width(*code_point) : 1;
}

}  // namespace

std::optional<char32_t> take_code_point(std::string_view& text) {
  const auto lead = lead_of(static_cast<unsigned char>(text.front()));
  const auto value = lead ? code_point_at(text, *lead) : std::nullopt;
  text.remove_prefix(value ? lead->length : 1);
  return value;
}

bool is_utf8(std::string_view text) {
  constexpr std::uint64_t kBeyondAscii = 0x8080808080808080;
  while (!text.empty()) {
    std::uint64_t eight = 0;
    while (text.size() >= sizeof(eight)) {  // Most text is ASCII.
      std::memcpy(&eight, text.data(), sizeof(eight));
      if ((eight & kBeyondAscii) != 0) break;
      text.remove_prefix(sizeof(eight));
    }
    if (!text.empty() && !take_code_point(text)) return false;
  }
  return true;
}

std::size_t display_width(char32_t code_point) {
  if (code_point >= 0x20 && code_point < 0x7f) return 1;
  if (contains(kZeroWide, code_point)) return 0;
  return contains(kTwoWide, code_point) ? 2 : 1;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) width += take_width(text);
  return width;
}

std::string_view fit_bytes(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  while (bytes > 0 && continues(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

std::string_view fit_columns(std::string_view text, std::size_t columns) {
  std::string_view rest = text;
  std::size_t width = 0;
  while (!rest.empty()) {
    std::string_view next = rest;
    width += take_width(next);
    if (width > columns) break;
    rest = next;
  }
  return text.substr(0, text.size() - rest.size());
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines(1);
  for (std::string word : split(text, ' ')) {
    if (word.empty()) continue;
    std::string& line = lines.back();
    if (!line.empty() && display_width(line) + 1 + display_width(word) <= columns) {
      line += " " + word;
      continue;
    }
    if (!line.empty()) lines.emplace_back();
    while (display_width(word) > columns && columns >= 2) {
      const std::string part(fit_columns(word, columns));
      word.erase(0, part.size());
      lines.back() = part;
      lines.emplace_back();
    }
    lines.back() = word;
  }
  return lines;
}

std::string indented(std::string_view text, std::size_t indent, std::size_t columns) {
  std::string page;
  for (const std::string& line : wrapped(text, columns - indent))
    page += std::string(indent, ' ') + line + "\n";
  return page;
}

}  // namespace accelerate
