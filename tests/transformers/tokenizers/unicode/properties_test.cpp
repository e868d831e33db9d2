#include "accelerate/transformers/tokenizers/unicode/properties.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "tests/transformers/tokenizers/unicode/unicode_golden.h"

namespace accelerate::detail {
namespace {

using testing::each_code_point;

const std::map<std::string, Property> kProperties = {
    {"kRegexSpace", kRegexSpace},
    {"kWordOfWhitespace", kWordOfWhitespace},
    {"kSpaceOfWhitespace", kSpaceOfWhitespace},
    {"kWhiteSpace", kWhiteSpace},
    {"kNumeric", kNumeric},
    {"kPunctuation", kPunctuation},
    {"kBertPunctuation", kBertPunctuation},
    {"kBertSpace", kBertSpace},
    {"kBertRemoved", kBertRemoved},
    {"kBertToSpace", kBertToSpace},
    {"kBertCjk", kBertCjk},
    {"kBertMark", kBertMark},
    {"kCombiningMark", kCombiningMark},
    {"kNmtRemoved", kNmtRemoved},
    {"kNmtToSpace", kNmtToSpace},
    {"kGraphemeExtend", kGraphemeExtend},
    {"kGraphemePrepend", kGraphemePrepend},
    {"kGraphemeControl", kGraphemeControl},
    {"kExtendedPictographic", kExtendedPictographic},
    {"kGraphemeSpacingMark", kGraphemeSpacingMark},
    {"kHangulLead", kHangulLead},
    {"kHangulVowel", kHangulVowel},
    {"kHangulTrail", kHangulTrail},
    {"kIndicConsonant", kIndicConsonant},
    {"kIndicLinker", kIndicLinker},
    {"kIndicExtend", kIndicExtend},
    {"kComposesBehind", kComposesBehind},
};

const std::map<std::string, std::function<std::uint64_t(char32_t)>> kValues = {
    {"categories", [](char32_t c) { return static_cast<std::uint64_t>(category_of(c)); }},
    {"scripts", [](char32_t c) { return std::uint64_t{script_of(c)}; }},
    {"classes", [](char32_t c) { return std::uint64_t{combining_class(c)}; }},
};

bool is_syllable(char32_t c) {
  return c >= 0xAC00 && c <= 0xD7A3;
}

std::u32string_view mapped(const std::string& name, char32_t c) {
  if (name == "lower") return lower_of(c);
  if (is_syllable(c)) return {};
  return name == "nfd" ? nfd_of(c) : nfkd_of(c);
}

/// The rows of one kind: name and checksum.
std::map<std::string, std::string> golden(const std::string& kind) {
  std::map<std::string, std::string> found;
  for (const auto& row : testing::unicode_rows(' ', 3)) {
    if (row[0] == kind) found[row[1]] = row[2];
  }
  return found;
}

TEST(UnicodeProperties, HoldForTheCodePointsThatTheOriginalNames) {
  const auto rows = golden("property");
  ASSERT_EQ(rows.size(), kProperties.size());
  for (const auto& [name, checksum] : rows) {
    testing::Checksum sum;
    each_code_point([&, property = kProperties.at(name)](char32_t c) {
      if (has(c, property)) sum.add({c});
    });
    EXPECT_EQ(sum.text(), checksum) << name;
  }
}

TEST(UnicodeProperties, CategoriesScriptsAndClassesAreThoseOfTheOriginal) {
  const auto rows = golden("values");
  ASSERT_EQ(rows.size(), kValues.size());
  for (const auto& [name, checksum] : rows) {
    testing::Checksum sum;
    each_code_point([&, &value_of = kValues.at(name)](char32_t c) { sum.add({value_of(c)}); });
    EXPECT_EQ(sum.text(), checksum) << name;
  }
}

TEST(UnicodeProperties, DecompositionsAndLowerCaseAreThoseOfTheOriginal) {
  const auto rows = golden("mapping");
  ASSERT_EQ(rows.size(), 3U);
  for (const auto& [name, checksum] : rows) {
    testing::Checksum sum;
    each_code_point([&, &name = name](char32_t c) {
      const auto text = mapped(name, c);
      if (!text.empty()) sum.add({c});
      for (const char32_t part : text) sum.add({part});
    });
    EXPECT_EQ(sum.text(), checksum) << name;
  }
}

TEST(UnicodeProperties, ComposeUndoesEachDecompositionThatMay) {
  // Firsts and seconds in ascending order, as the golden file has them.
  testing::Checksum sum;
  std::u32string seconds;
  each_code_point([&](char32_t c) {
    if (has(c, kComposesBehind)) seconds.push_back(c);
  });
  each_code_point([&](char32_t first) {
    for (const char32_t second : seconds) {
      if (const auto composed = compose(first, second)) sum.add({first, second, *composed});
    }
  });
  EXPECT_EQ(sum.text(), golden("compositions").at("all"));
}

TEST(UnicodeProperties, HangulSyllablesDecomposeAndComposeByArithmetic) {
  EXPECT_EQ(nfd_of(0xAC00), U"\u1100\u1161");
  EXPECT_EQ(nfkd_of(0xD7A3), U"\u1112\u1175\u11C2");
  EXPECT_EQ(compose(0x1112, 0x1175), char32_t{0xD788});
  EXPECT_EQ(compose(0xD788, 0x11C2), char32_t{0xD7A3});
}

TEST(UnicodeProperties, HangulThatIsCompleteOrNoTrailComposesNoFurther) {
  EXPECT_EQ(compose(0xD7A3, 0x11C2), std::nullopt);
  EXPECT_EQ(compose(0xAC00, 0x11A7), std::nullopt);
  EXPECT_EQ(compose(0x1113, 0x1161), std::nullopt);
}

TEST(UnicodeProperties, WhatIsNoCodePointIsUnassigned) {
  EXPECT_EQ(category_of(0x110000), Category::Cn);
  EXPECT_EQ(script_of(0xFFFFFFFF), 0);
  EXPECT_TRUE(nfkd_of(0x110000).empty());
}

TEST(UnicodeProperties, SurrogatesAreACategory) {
  EXPECT_EQ(category_of(0xD800), Category::Cs);
  EXPECT_EQ(category_of(0xDFFF), Category::Cs);
}

}  // namespace
}  // namespace accelerate::detail
