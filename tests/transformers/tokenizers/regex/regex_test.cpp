#include "accelerate/transformers/tokenizers/regex/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/support/errors.h"

namespace accelerate::detail {
namespace {

using testing::message_of;
using Matches = std::vector<Match>;

Matches matches(const std::string& pattern, std::string_view text) {
  Matches found;
  Regex::compile(pattern).find_all(text, found);
  return found;
}

std::string refusal_of(const std::string& pattern) {
  return message_of<ConfigError>([&] { (void)Regex::compile(pattern); });
}

std::string repeated(const std::string& part, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += part;
  return text;
}

class RefusedPatterns : public ::testing::TestWithParam<const char*> {};

TEST_P(RefusedPatterns, AreNamed) {
  const auto message = refusal_of(GetParam());
  EXPECT_NE(message.find("the pattern '" + std::string(GetParam()) + "'"), std::string::npos)
      << message;
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(All, RefusedPatterns, ::testing::Values(
    // What PCRE2 or the tables here might read otherwise than Oniguruma.
    R"((a)\1)", R"(\k<name>)", R"((?<n>a)\g<n>)", R"(\p{Script=Han})", R"(\p{Han2})", R"(\p{\w})", R"(\p{})", R"(\p{L)", R"(\y+)", R"(\K)", R"(\1)",
    R"((?<=a+)b)", R"((?i)ß)", R"((?i)[\p{L}])", R"((?i)[\w])", R"((?i)[à-ü])", R"((?i)ss)", R"((?i:fi))", R"([[:letter:]])", R"([a-[:alpha:]])", R"([a-\d])", R"(a(?i)b)",
    R"((?s)a)", R"((?P<n>a))", R"((?R))", R"((?(1)a))", R"((?~a))", R"(a{2}?)", R"(\x80)", R"(\x{110000})", R"(\c)",
    // What is no pattern.
    "(", ")", "(a", "a)", "[", "[a", "[a-", R"([a\)", "[z-a]", "a**", "a+*", "a???", "*", "+a", "?", "|*", "^*", "(?=a)*", R"(\)", R"(\x{)",
    R"(\x4)", R"(\u12)", "(?", "(?<", "(?<n", "(?#", "(?z)", "a{99999}", "a{3,2}", "(?<!a*)b"));
// clang-format on

TEST(Patterns, SayWhereTheFaultIs) {
  EXPECT_NE(refusal_of("ab(").find("before its character 4"), std::string::npos);
  EXPECT_NE(refusal_of(R"(\p{Hanzi})").find("general categories"), std::string::npos);
}

TEST(Patterns, NestedTooDeeplyAreRefused) {
  EXPECT_NE(refusal_of(repeated("(", 300) + "a" + repeated(")", 300)).find("200 groups"),
            std::string::npos);
  EXPECT_NE(refusal_of(repeated("[", 300)).find("50 classes"), std::string::npos);
  EXPECT_EQ(matches(repeated("(", 150) + "a" + repeated(")", 150), "ba"), (Matches{{1, 2}}));
}

TEST(Patterns, OfTooManyKindsOfCharactersAreRefusedAtOnce) {
  std::string few, many;
  for (char32_t c = 0x4E00; c < 0x4E00 + 3000; ++c) {
    std::string letter{static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
                       static_cast<char>(0x80 | (c & 0x3F))};
    many += letter;
    if (few.size() < 900) few += letter;
  }
  EXPECT_NE(refusal_of(few).find("256 kinds"), std::string::npos);
  EXPECT_NE(refusal_of(many).find("1,000 different sets"), std::string::npos);
}

// Quadratic work would run into the test's timeout.
TEST(Patterns, OfManyRangesInAnyOrderAreRead) {
  std::string members;
  for (int i = 20'000; i > 0; --i)
    members += std::string{static_cast<char>(0xF0), static_cast<char>(0xA0 + i / 4096),
                           static_cast<char>(0x80 + i / 64 % 64), static_cast<char>(0x80 + i % 64)};
  EXPECT_EQ(matches("[" + members + "]+", "a\U00020001b").size(), 1U);
}

TEST(ExplodingPatterns, AreDataErrors) {
  const Regex regex = Regex::compile("(a+)+b");
  const std::string text = std::string(40, 'a') + "c" + std::string(40, 'a') + "!b";
  const auto message = message_of<DataError>([&] {
    Matches found;
    regex.find_all(text, found);
  });
  EXPECT_NE(message.find("'(a+)+b' takes too long on a text of 83 bytes"), std::string::npos)
      << message;
}

TEST(ExplodingPatterns, LeaveTheThreadAbleToMatch) {
  EXPECT_THROW((void)matches("(a+)+b", std::string(40, 'a') + "!b"), DataError);
  EXPECT_EQ(matches("(a+)+b", "aab"), (Matches{{0, 3}}));
}

TEST(DeepRecursion, EndsInAMatchOrADataError) {
  const std::string text(3'000'000, 'a');
  try {
    EXPECT_EQ(matches("(?:a|b|(?:ab)*c)+", text), (Matches{{0, text.size()}}));
  } catch (const DataError&) {
  }
}

TEST(EmptyMatches, StandWhereNothingElseMatches) {
  EXPECT_EQ(matches("x*", "axb"), (Matches{{0, 0}, {1, 2}, {3, 3}}));
  EXPECT_EQ(matches("x*", ""), (Matches{{0, 0}}));
  EXPECT_EQ(matches("(?=a)", "\u00e9a"), (Matches{{2, 2}}));
  EXPECT_EQ(matches("^|$", "a\nb"), (Matches{{0, 0}, {1, 1}, {2, 2}, {3, 3}}));
}

TEST(Regex, CountsInBytesOfUtf8) {
  EXPECT_EQ(matches(R"(\p{L}+)", "\u00e9\u4f60 \U0001d400!"), (Matches{{0, 5}, {6, 10}}));
}

TEST(Regex, MayBeUsedBySeveralThreads) {
  const Regex regex = Regex::compile(R"(\w+(?=\d)|[^\s\w]{2,})");
  std::string text = repeated("word1 \u00e9t\u00e92 ...!! ", 500);
  Matches want;
  regex.find_all(text, want);
  std::vector<Matches> found(8);
  {
    std::vector<std::jthread> threads;
    for (Matches& each : found) {
      threads.emplace_back([&, regex] {
        for (int i = 0; i < 20; ++i) regex.find_all(text, each = {});
      });
    }
  }
  for (const Matches& each : found) EXPECT_EQ(each, want);
}

}  // namespace
}  // namespace accelerate::detail
