// The scanners written by hand against the same patterns through PCRE2.
#include "accelerate/transformers/tokenizers/regex/general_matcher.h"

#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/transformers/tokenizers/regex/regex.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

struct Known {
  const char* name;
  const char* pattern;
};
void PrintTo(const Known& known, std::ostream* out) {
  *out << known.name;
}

constexpr Known kPatterns[] = {
    {"Gpt2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {"Llama3",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"Qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"O200k",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"Tekken", R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
               R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
               R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"DeepSeek",
     R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"ThreeDigits", R"(\p{N}{1,3})"},
    {"HanAndKana", "[一-龥\u3040-ゟ゠-ヿ]+"},
};

// What the patterns tell apart, and what is easily mistaken.
constexpr const char* kParts[] = {
    "the",    " quick", "'s",      "'S",         "'LL",          "'ve",        "'Re",
    "'",      "'x",     "'\u017f", "'l",         "\u017f",       "\u212a",     "don't",
    "  ",     " ",      "\t",      "\r\n",       "\n\n",         "\r",         "\v",
    "\f",     "\x1c",   "\u0085",  "\u00a0",     "\u3000",       "\u2028",     "\u200b",
    "\u200d", "\ufeff", "e\u0301", "\u0301",     "\u0903",       "\u20dd",     "ABC",
    "aB",     "Ab",     "\u01c5",  "\u02b0",     "\u4f60\u597d", "\u30fc",     "\u3042",
    "\u30a2", "\u9fa5", "\u9fa6",  "\u0627",     "12",           "1234567",    "\u0663",
    "\u2167", "\u00bd", "_",       "/",          "//\n",         "!?",         "...",
    "$",      "+",      "\u20ac",  "\U0001f600", "\U0001d400",   "\U000e0001", "\ufffd",
    "#a",     "-b"};

char32_t any_character(std::mt19937_64& draw) {
  constexpr char32_t kLimits[] = {0x80, 0x250, 0x700, 0x2100, 0xA000, 0x20000, 0x110000};
  const auto c = static_cast<char32_t>(draw() % kLimits[draw() % std::size(kLimits)]);
  return c >= 0xD800 && c < 0xE000 ? 0xFFFD : c;
}

std::string random_text(std::mt19937_64& draw) {
  std::string text;
  for (std::size_t parts = draw() % 14; parts > 0; --parts) {
    const auto kind = draw() % 8;
    const char* const part = kParts[draw() % std::size(kParts)];
    const std::size_t times = kind == 0 ? draw() % 70 : 1;  // Sometimes a long run.
    for (std::size_t i = 0; i < times; ++i) {
      if (kind < 5)
        text += part;
      else
        append_utf8(text, any_character(draw));
    }
  }
  return text;
}

std::vector<Match> matches_of(const Regex& regex, std::string_view text) {
  std::vector<Match> found;
  regex.find_all(text, found);
  return found;
}

class KnownPatterns : public ::testing::TestWithParam<Known> {};

TEST_P(KnownPatterns, MatchAsPcre2DoesInRandomTexts) {
  const Regex known = Regex::compile(GetParam().pattern);
  const Regex general = Regex::compile_general(GetParam().pattern);
  std::mt19937_64 draw(20240607);
  for (int i = 0; i < 4000; ++i) {
    const std::string text = random_text(draw);
    ASSERT_EQ(matches_of(known, text), matches_of(general, text)) << i << ": " << text;
  }
}

TEST_P(KnownPatterns, MatchAsPcre2DoesAroundEveryCharacter) {
  const Regex known = Regex::compile(GetParam().pattern);
  const Regex general = Regex::compile_general(GetParam().pattern);
  std::string text;
  for (char32_t c = 0; c < 0x20000; c += c < 0x3100 ? 1 : 7) {
    if (c >= 0xD800 && c < 0xE000) continue;
    for (const char* const around : {"a", " ", "1", "'s"}) append_utf8(text += around, c);
    if (text.size() < 4000) continue;
    ASSERT_EQ(matches_of(known, text), matches_of(general, text)) << "before U+" << std::hex << +c;
    text.clear();
  }
}

TEST_P(KnownPatterns, MatchLongRunsOfEveryKindOfCharacterAsPcre2Does) {
  const Regex known = Regex::compile(GetParam().pattern);
  const Regex general = Regex::compile_general(GetParam().pattern);
  for (const char* const part : {" ", "\n", "a", "A", "!", "\u4e2d", "\u0301", " \n"}) {
    for (const char* const behind : {"", "x", "\n"}) {
      std::string text;
      for (int i = 0; i < 100'000; ++i) text += part;
      text += behind;
      ASSERT_EQ(matches_of(known, text), matches_of(general, text)) << part;
    }
  }
}

TEST_P(KnownPatterns, AreFoundThoughLineEndsAreSpelledOut) {
  std::string spelled(GetParam().pattern);
  for (const auto& [from, to] : {std::pair("\\r", "\r"), std::pair("\\n", "\n")}) {
    for (std::size_t at = spelled.find(from); at != std::string::npos; at = spelled.find(from))
      spelled.replace(at, 2, to);
  }
  EXPECT_EQ(known_pattern(spelled), known_pattern(GetParam().pattern));
  EXPECT_NE(known_pattern(spelled), nullptr);
}

INSTANTIATE_TEST_SUITE_P(All, KnownPatterns, ::testing::ValuesIn(kPatterns),
                         [](const auto& known) { return known.param.name; });

// Kimi's pattern is known to none of the scanners.
TEST(OtherPatterns, MatchAMillionCharactersOfOneKind) {
  constexpr char kKimi[] =
      R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
      R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
      R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  for (const char* const pattern : {kKimi, "(?:A|[^A])+"}) {
    const Regex regex = Regex::compile(pattern);
    for (const char* const part : {" ", "\n", "a", "A", "!", "\u4e2d"}) {
      std::string text;
      for (int i = 0; i < 1'000'000; ++i) text += part;
      ASSERT_EQ(matches_of(regex, text), (std::vector<Match>{{0, text.size()}})) << part;
    }
  }
}

TEST(KnownScanner, IsNoneForOtherPatterns) {
  EXPECT_EQ(known_pattern(R"(\p{N}{1,4})"), nullptr);
  EXPECT_EQ(known_pattern(""), nullptr);
}

}  // namespace
}  // namespace accelerate::detail
