// What Hugging Face `tokenizers` knows of each code point. Its parts do not agree on what a space,
// a word or a punctuation character is: each part that differs has its own property here.
// Code points from U+110000 on have the properties of U+FFFF, which is not assigned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "accelerate/transformers/tokenizers/unicode/tables.h"

namespace accelerate::detail {

// What a reader takes for one character.

/// Returns the end of the extended grapheme cluster that begins at byte `begin` of `text` (UTF-8).
/// Source: Unicode Standard Annex 29, rules GB3 to GB13.
[[nodiscard]] std::size_t end_of_grapheme(std::string_view text, std::size_t begin);

}  // namespace accelerate::detail

namespace accelerate::detail::unicode {

// The sets of code points that regular expressions have names for, as tests/reference/regex_sets.py
// writes them into named_sets.cpp. Use regex/character_set.h.

struct NamedSet {
  /// In small letters, without spaces, hyphens and underscores.
  const char* name;
  std::uint32_t set;
};

/// Ordered by name. Several names may stand for one set.
extern const NamedSet named_sets[];
extern const std::size_t named_set_count;
/// Set n consists of the steps from set_begins[n] up to set_begins[n + 1].
extern const std::uint32_t set_begins[];
/// How many code points are outside of the set, then inside, then outside again, and so on.
extern const char32_t set_steps[];

}  // namespace accelerate::detail::unicode

namespace accelerate::detail {

/// Each property has its own bit, in the order of PROPERTIES in tests/reference/unicode_tables.py.
enum Property : std::uint32_t {
  /// \s of a regular expression in Split or Replace (Oniguruma). Its other sets have names.
  kRegexSpace = 1U << 0,
  /// \w and \s of the pre-tokenizer Whitespace (the Rust crate regex).
  kWordOfWhitespace = 1U << 1,
  kSpaceOfWhitespace = 1U << 2,
  /// Split at and dropped by WhitespaceSplit; dropped by Strip.
  kWhiteSpace = 1U << 3,
  /// Isolated by the pre-tokenizer Digits.
  kNumeric = 1U << 4,
  /// Isolated by the pre-tokenizer Punctuation.
  kPunctuation = 1U << 5,
  /// BertPreTokenizer isolates punctuation and drops spaces.
  kBertPunctuation = 1U << 6,
  kBertSpace = 1U << 7,
  /// `clean_text` of BertNormalizer drops kBertRemoved and writes a space for kBertToSpace.
  kBertRemoved = 1U << 8,
  kBertToSpace = 1U << 9,
  /// `handle_chinese_chars` of BertNormalizer puts spaces around such a character.
  kBertCjk = 1U << 10,
  /// `strip_accents` of BertNormalizer drops such a character, after NFD.
  kBertMark = 1U << 11,
  /// Dropped by StripAccents.
  kCombiningMark = 1U << 12,
  /// The normalizer Nmt drops kNmtRemoved and writes a space for kNmtToSpace.
  kNmtRemoved = 1U << 13,
  kNmtToSpace = 1U << 14,
  /// Joins the grapheme cluster before it: Extend, ZWJ and SpacingMark of Unicode.
  kGraphemeExtend = 1U << 15,
  /// Joins the grapheme cluster after it.
  kGraphemePrepend = 1U << 16,
  /// Stands alone: Control, CR and LF of Unicode.
  kGraphemeControl = 1U << 17,
  kExtendedPictographic = 1U << 18,
  /// The part of kGraphemeExtend after which a ZWJ joins no pictograph: SpacingMark and ZWJ itself.
  kGraphemeSpacingMark = 1U << 19,
  /// The conjoining letters of Hangul: L, V and T of Unicode. Syllables have none of these.
  kHangulLead = 1U << 20,
  kHangulVowel = 1U << 21,
  kHangulTrail = 1U << 22,
  /// Indic_Conjunct_Break of Unicode, for the rule GB9c.
  kIndicConsonant = 1U << 23,
  kIndicLinker = 1U << 24,
  kIndicExtend = 1U << 25,
  /// The second character of some composition, other than of Hangul.
  kComposesBehind = 1U << 26,
};

/// Cost: four loads, from tables of 30 kB. The other functions here cost as much or less.
[[nodiscard]] inline const unicode::Record& record_of(char32_t c) {
  if (c >= unicode::kLimit) c = 0xFFFF;
  using namespace unicode;
  return records[look_up(record_groups, record_blocks, record_values, c)];
}

/// All properties of `c`, joined by |.
[[nodiscard]] inline std::uint32_t properties_of(char32_t c) {
  return record_of(c).properties;
}
[[nodiscard]] inline bool has(char32_t c, Property p) {
  return (properties_of(c) & p) != 0;
}

/// As \p{...} of a regular expression in Split or Replace.
[[nodiscard]] inline Category category_of(char32_t c) {
  return record_of(c).category;
}

/// Canonical_Combining_Class: 0 for every character that NFD does not move.
[[nodiscard]] inline std::uint8_t combining_class(char32_t c) {
  return record_of(c).combining_class;
}

/// A number for the script that UnicodeScripts takes `c` for; 0 is Any, which never splits.
/// Hiragana, Katakana and Han are one script.
[[nodiscard]] inline std::uint8_t script_of(char32_t c) {
  if (c >= unicode::kLimit) return 0;
  using namespace unicode;
  return look_up(script_groups, script_blocks, script_values, c);
}

/// Returns the lower case of `c` alone, up to three characters; empty if it is `c` itself.
[[nodiscard]] std::u32string_view lower_of(char32_t c);
/// Returns the full decomposition of `c`, canonical or compatibility; empty if it is `c` itself.
/// The view is valid as long as the program runs.
[[nodiscard]] std::u32string_view nfd_of(char32_t c);
[[nodiscard]] std::u32string_view nfkd_of(char32_t c);

/// Returns the canonical composition of two characters, Hangul included; nullopt if there is none.
/// Cost: four loads for nearly all pairs, otherwise a binary search among 940 compositions.
[[nodiscard]] std::optional<char32_t> compose(char32_t first, char32_t second);

}  // namespace accelerate::detail
