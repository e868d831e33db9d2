#include "accelerate/transformers/tokenizers/unicode/properties.h"

#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

constexpr char32_t kJoiner = 0x200D;

bool is_regional_indicator(char32_t c) {
  return c >= 0x1F1E6 && c <= 0x1F1FF;
}

bool is_syllable(char32_t c) {
  return c >= 0xAC00 && c <= 0xD7A3;
}

bool is_open_syllable(char32_t c) {
  return is_syllable(c) && (c - 0xAC00) % 28 == 0;
}

// What the rules must know of the characters of a cluster so far.
class Cluster {
 public:
  explicit Cluster(char32_t first) { add(first); }

  [[nodiscard]] bool goes_on(char32_t next) const {
    if (last_ == U'\r' && next == U'\n') return true;
    if (has(last_, kGraphemeControl) || has(next, kGraphemeControl)) return false;
    if (has(next, kGraphemeExtend) || has(last_, kGraphemePrepend)) return true;
    if (is_hangul_pair(next)) return true;
    if (has(next, kIndicConsonant) && is_linked_) return true;
    if (joins_pictograph_ && has(next, kExtendedPictographic)) return true;
    return is_regional_indicator(next) && indicators_ % 2 == 1;
  }

  void add(char32_t c) {
    joins_pictograph_ = follows_pictograph_ && c == kJoiner;
    const bool extends = has(c, kGraphemeExtend) && !has(c, kGraphemeSpacingMark);
    follows_pictograph_ = has(c, kExtendedPictographic) || (follows_pictograph_ && extends);
    indicators_ = is_regional_indicator(c) ? indicators_ + 1 : 0;
    const bool keeps = has(c, kIndicLinker) || has(c, kIndicExtend);
    is_linked_ = follows_consonant_ && keeps && (is_linked_ || has(c, kIndicLinker));
    follows_consonant_ = has(c, kIndicConsonant) || (follows_consonant_ && keeps);
    last_ = c;
  }

 private:
  [[nodiscard]] bool is_hangul_pair(char32_t next) const {
    const bool vowel = has(next, kHangulVowel), trail = has(next, kHangulTrail);
    if (has(last_, kHangulLead)) return has(next, kHangulLead) || vowel || is_syllable(next);
    if (has(last_, kHangulVowel) || is_open_syllable(last_)) return vowel || trail;
    return (has(last_, kHangulTrail) || is_syllable(last_)) && trail;
  }

  char32_t last_ = 0;
  int indicators_ = 0;
  bool follows_pictograph_ = false, joins_pictograph_ = false;
  bool follows_consonant_ = false, is_linked_ = false;
};

}  // namespace

std::size_t end_of_grapheme(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  Cluster cluster(next_code_point(text, end));
  while (end < text.size()) {
    std::size_t next = end;
    const char32_t c = next_code_point(text, next);
    if (!cluster.goes_on(c)) break;
    cluster.add(c);
    end = next;
  }
  return end;
}

}  // namespace accelerate::detail
