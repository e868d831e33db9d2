#include "accelerate/transformers/tokenizers/unicode/properties.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "accelerate/transformers/tokenizers/unicode/tables.h"

namespace accelerate::detail {

namespace {

// The composition of Hangul syllables is arithmetic: the Unicode standard, section 3.12.
constexpr char32_t kFirstSyllable = 0xAC00;
constexpr char32_t kFirstLead = 0x1100;
constexpr char32_t kFirstVowel = 0x1161;
constexpr char32_t kNoTrail = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTrails = 28;
constexpr char32_t kSyllables = kLeads * kVowels * kTrails;

/// Whether `c` is among `count` code points from `first` on.
bool within(char32_t c, char32_t first, char32_t count) {
  return c - first < count;
}

using Jamo = std::array<char32_t, 3>;

Jamo jamo_of(char32_t syllable) {
  return {kFirstLead + syllable / (kVowels * kTrails), kFirstVowel + syllable / kTrails % kVowels,
          kNoTrail + syllable % kTrails};
}

/// Views must outlive the call, so all syllables are decomposed once.
const std::array<Jamo, kSyllables>& all_jamo() {
  static const auto all = [] {
    std::array<Jamo, kSyllables> made;
    for (char32_t i = 0; i < kSyllables; ++i) made[i] = jamo_of(i);
    return made;
  }();
  return all;
}

std::u32string_view decompose_hangul(char32_t c) {
  const char32_t syllable = c - kFirstSyllable;
  return {all_jamo()[syllable].data(), syllable % kTrails == 0 ? 2U : 3U};
}

std::optional<char32_t> compose_hangul(char32_t first, char32_t second) {
  if (within(first, kFirstLead, kLeads) && within(second, kFirstVowel, kVowels)) {
    return kFirstSyllable + ((first - kFirstLead) * kVowels + (second - kFirstVowel)) * kTrails;
  }
  const bool open =
      within(first, kFirstSyllable, kSyllables) && (first - kFirstSyllable) % kTrails == 0;
  if (open && within(second, kNoTrail + 1, kTrails - 1)) return first + (second - kNoTrail);
  return std::nullopt;
}

const unicode::Mapping& mapping_of(char32_t c) {
  using namespace unicode;
  if (c >= kLimit) return mappings[0];
  return mappings[look_up(mapping_groups, mapping_blocks, mapping_values, c)];
}

std::u32string_view pooled(std::uint32_t place) {
  return {unicode::mapping_pool + place / 32, place % 32};
}

}  // namespace

std::u32string_view lower_of(char32_t c) {
  return pooled(mapping_of(c).lower);
}

std::u32string_view nfd_of(char32_t c) {
  if (within(c, kFirstSyllable, kSyllables)) return decompose_hangul(c);
  return pooled(mapping_of(c).nfd);
}

std::u32string_view nfkd_of(char32_t c) {
  if (within(c, kFirstSyllable, kSyllables)) return decompose_hangul(c);
  return pooled(mapping_of(c).nfkd);
}

std::optional<char32_t> compose(char32_t first, char32_t second) {
  if (!has(second, kComposesBehind)) return compose_hangul(first, second);
  const auto* end = unicode::compositions + unicode::composition_count;
  const auto* found = std::partition_point(unicode::compositions, end, [&](const auto& each) {
    return each.first != first ? each.first < first : each.second < second;
  });
  if (found == end || found->first != first || found->second != second) return std::nullopt;
  return found->composed;
}

}  // namespace accelerate::detail
