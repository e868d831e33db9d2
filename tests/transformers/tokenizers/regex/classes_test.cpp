// The code points of classes against Oniguruma's answers: tests/reference/regex_sets.py.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "accelerate/transformers/tokenizers/regex/translation.h"
#include "tests/transformers/tokenizers/unicode/unicode_golden.h"

namespace accelerate::detail {
namespace {

std::string checksum_of(const std::string& pattern) {
  const Translation translation = translate(pattern);
  testing::Checksum sum;
  for (const auto& [first, last] : translation.sets.at(0).ranges()) sum.add({first, last + 1});
  return sum.text();
}

TEST(CharacterClasses, MatchTheCodePointsThatTheOriginalMatches) {
  std::istringstream lines(testing::read_reference("regex_sets.txt"));
  std::size_t compared = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    const std::string pattern = line.substr(17);
    EXPECT_EQ(checksum_of(pattern), line.substr(0, 16)) << pattern;
    ++compared;
  }
  EXPECT_GT(compared, 1300U);
}

}  // namespace
}  // namespace accelerate::detail
