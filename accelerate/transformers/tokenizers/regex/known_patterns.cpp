#include "accelerate/transformers/tokenizers/regex/general_matcher.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "accelerate/transformers/tokenizers/unicode/code_points.h"
#include "accelerate/transformers/tokenizers/unicode/properties.h"

namespace accelerate::detail {
namespace {

// The kinds of characters that the patterns tell apart. A character may be of several kinds.
enum Kind : std::uint8_t {
  kLetter = 1,       // \p{L}
  kNumber = 2,       // \p{N}
  kSpace = 4,        // \s
  kOther = 8,        // [^\s\p{L}\p{N}]
  kMark = 16,        // \p{M}
  kSign = 32,        // [\p{P}\p{S}]
  kBeginsWord = 64,  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] of o200k
  kContinues = 128,  // [\p{Ll}\p{Lm}\p{Lo}\p{M}] of o200k
};

std::uint8_t kind_of_category(Category category) {
  using enum Category;
  switch (category) {
    case Lu:
    case Lt:
      return kLetter | kBeginsWord;
    case Ll:
      return kLetter | kContinues;
    case Lm:
    case Lo:
      return kLetter | kBeginsWord | kContinues;
    case Mn:
    case Mc:
    case Me:
      return kMark | kBeginsWord | kContinues;
    case Nd:
    case Nl:
    case No:
      return kNumber;
    case Pc:
    case Pd:
    case Ps:
    case Pe:
    case Pi:
    case Pf:
    case Po:
    case Sm:
    case Sc:
    case Sk:
    case So:
      return kSign;
    default:
      return 0;
  }
}

std::uint8_t look_up_kind(char32_t c) {
  const auto& record = record_of(c);
  std::uint8_t kind = kind_of_category(record.category);
  if ((record.properties & kRegexSpace) != 0) kind |= kSpace;
  if ((kind & (kSpace | kLetter | kNumber)) == 0) kind |= kOther;
  return kind;
}

// At namespace scope, so that no call has to check whether it is initialized.
const auto kAsciiKinds = [] {
  std::array<std::uint8_t, 128> kinds{};
  for (char32_t i = 0; i < kinds.size(); ++i) kinds[i] = look_up_kind(i);
  return kinds;
}();

std::uint8_t kind_of(char32_t c) {
  return c < kAsciiKinds.size() ? kAsciiKinds[c] : look_up_kind(c);
}

// Returns the kind of the character at `at`, and moves `at` past it; 0 at the end.
std::uint8_t next_kind(std::string_view text, std::size_t& at) {
  return at < text.size() ? kind_of(next_code_point(text, at)) : 0;
}

// Returns the end of a run of at most `limit` characters, each of at least one of `kinds`.
std::size_t end_of_run(std::string_view text, std::size_t at, unsigned kinds,
                       std::size_t limit = SIZE_MAX) {
  for (; at < text.size() && limit > 0; --limit) {
    if (const auto byte = static_cast<unsigned char>(text[at]); byte < kAsciiKinds.size()) {
      if ((kAsciiKinds[byte] & kinds) == 0) break;
      ++at;
      continue;
    }
    std::size_t next = at;
    if ((next_kind(text, next) & kinds) == 0) break;
    at = next;
  }
  return at;
}

bool is_at(std::string_view text, std::size_t at, char c) {
  return at < text.size() && text[at] == c;
}

bool is_line_end(std::string_view text, std::size_t at) {
  return is_at(text, at, '\r') || is_at(text, at, '\n');
}

std::size_t skip(std::string_view text, std::size_t at, std::string_view any_of) {
  while (at < text.size() && any_of.find(text[at]) != std::string_view::npos) ++at;
  return at;
}

// 's|'t|'re|'ve|'m|'ll|'d
std::size_t contraction(std::string_view text, std::size_t at) {
  if (!is_at(text, at, '\'') || at + 1 == text.size()) return at;
  const std::string_view rest = text.substr(at + 1);
  if (std::string_view("stmd").find(rest[0]) != std::string_view::npos) return at + 2;
  if (rest.starts_with("re") || rest.starts_with("ve") || rest.starts_with("ll")) return at + 3;
  return at;
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d); ſ is a small s.
std::size_t any_contraction(std::string_view text, std::size_t at) {
  if (!is_at(text, at, '\'')) return at;
  if (text.substr(at + 1).starts_with("\u017F")) return at + 3;
  std::string lower(text.substr(at, 3));
  for (char& c : lower) c = 'A' <= c && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return at + contraction(lower, 0);
}

// \s+(?!\S)|\s+: the last space before a word is left to the word.
std::size_t spaces(std::string_view text, std::size_t at) {
  std::size_t end = end_of_run(text, at, kSpace);
  if (end == at || end == text.size()) return end;
  std::size_t last = end - 1;
  while (!begins_character(text[last])) --last;
  return last == at ? end : last;
}

// \s*[\r\n]+
std::size_t lines(std::string_view text, std::size_t at) {
  std::size_t end = end_of_run(text, at, kSpace);
  while (end > at && !is_line_end(text, end - 1)) --end;
  return end;
}

// \s*[\r\n]+|\s+(?!\S)|\s+
std::size_t lines_or_spaces(std::string_view text, std::size_t at) {
  const std::size_t end = lines(text, at);
  return end > at ? end : spaces(text, at);
}

// ` ?` and a run of `kinds`, then any of `tail`.
std::size_t after_space(std::string_view text, std::size_t at, unsigned kinds,
                        std::string_view tail) {
  const std::size_t begin = at + (is_at(text, at, ' ') ? 1 : 0);
  const std::size_t end = end_of_run(text, begin, kinds);
  return end > begin ? skip(text, end, tail) : at;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t scan_gpt2(std::string_view text, std::size_t at) {
  if (const std::size_t end = contraction(text, at); end > at) return end;
  const std::size_t begin = at + (is_at(text, at, ' ') ? 1 : 0);
  std::size_t next = begin;
  const unsigned kind = next_kind(text, next) & (kLetter | kNumber | kOther);
  return kind != 0 ? end_of_run(text, next, kind) : spaces(text, at);
}

// [^\r\n\p{L}\p{N}]?\p{L}+
std::size_t letters(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  if ((next_kind(text, begin) & (kLetter | kNumber)) != 0 || is_line_end(text, at)) begin = at;
  const std::size_t end = end_of_run(text, begin, kLetter);
  return end > begin ? end : at;
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|…
template <std::size_t digits>
std::size_t scan_llama3(std::string_view text, std::size_t at) {
  if (const std::size_t end = any_contraction(text, at); end > at) return end;
  if (const std::size_t end = letters(text, at); end > at) return end;
  if (const std::size_t end = end_of_run(text, at, kNumber, digits); end > at) return end;
  if (const std::size_t end = after_space(text, at, kOther, "\r\n"); end > at) return end;
  return lines_or_spaces(text, at);
}

// If `continues`: [begins a word]*[continues]+, otherwise [begins a word]+; without a contraction.
// As both sets share characters, the first part gives back characters up to one that continues.
std::size_t cased_word(std::string_view text, std::size_t at, bool continues) {
  const std::size_t middle = end_of_run(text, at, kBeginsWord);
  if (!continues) return middle;
  const std::size_t end = end_of_run(text, middle, kContinues);
  if (end > middle) return end;
  for (std::size_t last = middle; last > at;) {
    const std::size_t behind = last;
    if ((kind_of(previous_code_point(text, last)) & kContinues) != 0) return behind;
  }
  return at;
}

// Both cased words of o200k, without a contraction behind them.
std::size_t o200k_word(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  if ((next_kind(text, begin) & (kLetter | kNumber)) != 0 || is_line_end(text, at)) begin = at;
  for (const bool continues : {true, false}) {
    if (const std::size_t end = cased_word(text, begin, continues); end > begin) return end;
    if (const std::size_t end = cased_word(text, at, continues); end > at) return end;
  }
  return at;
}

template <bool has_contractions, std::size_t digits>
std::size_t scan_o200k(std::string_view text, std::size_t at) {
  if (const std::size_t end = o200k_word(text, at); end > at)
    return has_contractions ? any_contraction(text, end) : end;
  if (const std::size_t end = end_of_run(text, at, kNumber, digits); end > at) return end;
  if (const std::size_t end = after_space(text, at, kOther, "\r\n/"); end > at) return end;
  return lines_or_spaces(text, at);
}

bool is_ascii_letter(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z');
}

bool is_ascii_sign(char c) {
  return '!' <= c && c <= '~' && !is_ascii_letter(c) && !('0' <= c && c <= '9');
}

// [!-/:-@\[-`{-~][A-Za-z]+
std::size_t sign_and_letters(std::string_view text, std::size_t at) {
  std::size_t end = at + 1;
  while (is_ascii_sign(text[at]) && end < text.size() && is_ascii_letter(text[end])) ++end;
  return end > at + 1 ? end : at;
}

// [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
std::size_t letters_and_marks(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  const unsigned kind = next_kind(text, begin);
  if ((kind & (kLetter | kSign)) != 0 || is_line_end(text, at)) begin = at;
  const std::size_t end = end_of_run(text, begin, kLetter | kMark);
  if (end > begin) return end;
  return (kind & kMark) != 0 ? begin : at;
}

std::size_t scan_deepseek(std::string_view text, std::size_t at) {
  if (const std::size_t end = sign_and_letters(text, at); end > at) return end;
  if (const std::size_t end = letters_and_marks(text, at); end > at) return end;
  if (const std::size_t end = after_space(text, at, kSign, "\r\n"); end > at) return end;
  return lines_or_spaces(text, at);
}

std::size_t scan_three_digits(std::string_view text, std::size_t at) {
  return end_of_run(text, at, kNumber, 3);
}

std::size_t first_number(std::string_view text, std::size_t at) {
  while (at < text.size() && static_cast<unsigned char>(text[at]) < kAsciiKinds.size() &&
         (kAsciiKinds[static_cast<unsigned char>(text[at])] & kNumber) == 0) {
    ++at;
  }
  return at;
}

// All these characters have three bytes. The first one is E3 to E9.
std::size_t first_han_or_kana(std::string_view text, std::size_t at) {
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0xE3) ++at;
  return at;
}

std::size_t scan_han_and_kana(std::string_view text, std::size_t at) {
  for (std::size_t next = at; next < text.size(); at = next) {
    const char32_t c = next_code_point(text, next);
    const bool is_one = (0x4E00 <= c && c <= 0x9FA5) || (0x3040 <= c && c <= 0x30FF);
    if (!is_one) return at;
  }
  return at;
}

// Line ends are spelled \r and \n here. Some authors write the characters themselves:
// known_pattern() spells them out.
constexpr std::array<KnownPattern, 8> kKnown{{
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", scan_gpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     scan_llama3<3>},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     scan_llama3<1>},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     scan_o200k<true, 3>},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     scan_o200k<false, 1>},
    {R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     scan_deepseek},
    {R"(\p{N}{1,3})", scan_three_digits, first_number},
    {"[一-龥\u3040-ゟ゠-ヿ]+", scan_han_and_kana, first_han_or_kana},
}};

}  // namespace

const KnownPattern* known_pattern(std::string_view spelling) {
  std::string spelled;
  for (const char c : spelling) {
    if (c == '\r')
      spelled += "\\r";
    else if (c == '\n')
      spelled += "\\n";
    else
      spelled += c;
  }
  const auto found = std::ranges::find(kKnown, spelled, &KnownPattern::spelling);
  return found == kKnown.end() ? nullptr : found;
}

}  // namespace accelerate::detail
