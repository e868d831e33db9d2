#include "accelerate/formats/documents/scalar_style.h"

#include <array>
#include <cstdio>
#include <utility>

#include "accelerate/formats/documents/document.h"
#include "accelerate/formats/documents/document_builder.h"

namespace accelerate::detail {
namespace {

using View = std::u32string_view;

constexpr View kBreaks = U"\n\u0085\u2028\u2029";
constexpr View kLeadingIndicators = U"#,[]{}&*!|>'\"%@`";
constexpr int kStringTagLength = 5;  // "!!str", which the emitter adds to the length of a key.
constexpr std::size_t kMaxSimpleKey = 128;

bool contains(View set, char32_t c) {
  return set.find(c) != View::npos;
}
bool is_break(char32_t c) {
  return contains(kBreaks, c);
}

bool is_white(char32_t c) {
  return c == U'\0' || c == U' ' || c == U'\t' || c == U'\r' || is_break(c);
}

bool white_or_end(const std::u32string& text, std::size_t index) {
  return index >= text.size() || is_white(text[index]);
}

// Whether a parser would take the character at `index` for an indicator in a block scalar.
bool is_indicator(const std::u32string& text, std::size_t index) {
  const char32_t c = text[index];
  if (index == 0) {
    return contains(kLeadingIndicators, c) || (contains(U"?:-", c) && white_or_end(text, 1));
  }
  return (c == U':' && white_or_end(text, index + 1)) || (c == U'#' && is_white(text[index - 1]));
}

bool has_indicators(const std::u32string& text) {
  if (text.starts_with(U"---") || text.starts_with(U"...")) return true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_indicator(text, i)) return true;
  }
  return false;
}

// Combinations of blanks and breaks that some styles would lose.
struct Blanks {
  bool at_edges = false;     // Leading or trailing.
  bool break_space = false;  // A blank after a break.
  bool space_break = false;  // A break after a blank.
};

Blanks find_blanks(const std::u32string& text) {
  Blanks found;
  for (const char32_t edge : {text.front(), text.back()}) {
    found.at_edges |= edge == U' ' || is_break(edge);
  }
  for (std::size_t i = 1; i < text.size(); ++i) {
    found.break_space |= is_break(text[i - 1]) && text[i] == U' ';
    found.space_break |= text[i - 1] == U' ' && is_break(text[i]);
  }
  return found;
}

// Whether the text has characters other than printable ASCII and line feeds, which need an escape.
bool has_special(const std::u32string& text) {
  for (const char32_t c : text) {
    if (c != U'\n' && (c < 0x20 || c > 0x7E)) return true;
  }
  return false;
}

bool has_breaks(const std::u32string& text) {
  return text.find_first_of(kBreaks) != View::npos;
}

}  // namespace

ScalarStyle Scalar::style(bool simple_key) const {
  if (resolves && allow_plain && !(simple_key && (text.empty() || multiline))) {
    return ScalarStyle::plain;
  }
  if (allow_single_quoted && !(simple_key && multiline)) return ScalarStyle::single_quoted;
  return ScalarStyle::double_quoted;
}

bool Scalar::is_simple_key() const {
  return !text.empty() && !multiline && text.size() + kStringTagLength < kMaxSimpleKey;
}

Scalar analyze_scalar(std::string_view text, bool is_string) {
  Scalar scalar;
  scalar.text = decode_utf8(text);
  scalar.resolves = !is_string || resolve_scalar(text) == ScalarKind::text;
  scalar.allow_plain = scalar.allow_single_quoted = true;
  if (scalar.text.empty()) return scalar;
  const Blanks blanks = find_blanks(scalar.text);
  const bool special = has_special(scalar.text);
  scalar.multiline = has_breaks(scalar.text);
  scalar.allow_single_quoted = !blanks.break_space && !blanks.space_break && !special;
  scalar.allow_plain = scalar.allow_single_quoted && !blanks.at_edges && !scalar.multiline &&
                       !has_indicators(scalar.text);
  return scalar;
}

bool needs_escape(char32_t c) {
  return c == U'"' || c == U'\\' || c < 0x20 || c > 0x7E;
}

std::u32string escape(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kNamed[] = {
      {0x00, U'0'},   {0x07, U'a'}, {0x08, U'b'}, {0x09, U't'},   {0x0A, U'n'},
      {0x0B, U'v'},   {0x0C, U'f'}, {0x0D, U'r'}, {0x1B, U'e'},   {U'"', U'"'},
      {U'\\', U'\\'}, {0x85, U'N'}, {0xA0, U'_'}, {0x2028, U'L'}, {0x2029, U'P'}};
  for (const auto& [from, letter] : kNamed) {
    if (c == from) return {U'\\', letter};
  }
  const char* format = c <= 0xFF ? "\\x%02X" : c <= 0xFFFF ? "\\u%04X" : "\\U%08X";
  std::array<char, 16> buffer{};
  const int length = std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(c));
  return {buffer.data(), buffer.data() + length};
}

}  // namespace accelerate::detail
