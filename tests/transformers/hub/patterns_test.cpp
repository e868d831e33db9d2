#include "accelerate/transformers/hub/patterns.h"

#include <gtest/gtest.h>

namespace accelerate {
namespace {

struct PatternCase {
  const char *text, *pattern;
  bool matches;
};

// Answers of Python's fnmatch.fnmatchcase; tests/transformers/hub/download_live.py asks it more.
TEST(FilePatterns, MatchAsPythonsFnmatchcase) {
  const PatternCase cases[] = {
      {"a.json", "*.json", true},
      {"x/a.json", "*.json", true},
      {"a.jsonl", "*.json", false},
      {"A.json", "a.json", false},
      {".hidden", "*", true},
      {"", "*", true},
      {"", "?", false},
      {"é", "?", true},
      {"ab", "a[bc]", true},
      {"ab", "a[!bc]", false},
      {"a]", "a[]]", true},
      {"a[", "a[", true},
      {"a-", "a[a-]", true},
      {"b", "[a-c]", true},
      {"d", "[!a-c]", true},
      {"aXbXc", "a*b*c", true},
      {"aXbX", "a*b*c", false},
      {"aaaaaaaaaaaaaaaaaaaaaaaaaaaab", "a*a*a*a*a*a*a*b", true},
      {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "a*a*a*a*a*a*a*b", false},
      {"a\\b", "a\\b", true},
  };
  for (const auto& [text, pattern, matches] : cases)
    EXPECT_EQ(detail::matches_pattern(text, pattern), matches) << text << " " << pattern;
}

TEST(FilePatterns, AnEmptyListAllowsAll) {
  EXPECT_TRUE(FilePatterns{}.matches("a"));
}

TEST(FilePatterns, IgnoredWinsOverAllowed) {
  const FilePatterns patterns{.allow = {"*.json"}, .ignore = {"onnx/"}};
  EXPECT_TRUE(patterns.matches("config.json"));
  EXPECT_FALSE(patterns.matches("onnx/config.json"));
  EXPECT_FALSE(patterns.matches("model.bin"));
}

TEST(FilePatterns, BackslashesAreSlashes) {
  EXPECT_TRUE((FilePatterns{.allow = {"a\\*.json"}}.matches("a/b.json")));
}

TEST(FilePatterns, APatternOfANameMatchesItAlone) {
  const std::string name = "a[1]*?.txt";
  EXPECT_TRUE(detail::matches_pattern(name, detail::pattern_of(name)));
  EXPECT_FALSE(detail::matches_pattern("a1xy.txt", detail::pattern_of(name)));
}

}  // namespace
}  // namespace accelerate
