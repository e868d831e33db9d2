#include "accelerate/transformers/tokenizers/models/token_finder.h"

#include <gtest/gtest.h>

#include <random>

namespace accelerate::detail {
namespace {

using Tokens = std::vector<std::string>;

TokenFinder finder_of(const Tokens& tokens) {
  TokenFinder finder;
  for (std::uint32_t id = 0; id < tokens.size(); ++id) finder.add(tokens[id], id);
  finder.prepare();
  return finder;
}

std::vector<Found> found_in(const std::string& text, const Tokens& tokens) {
  std::vector<Found> found;
  EXPECT_LE(finder_of(tokens).find_all(text, found), 2 * text.size());
  return found;
}

// Tries every token at every place.
std::vector<Found> found_plainly(const std::string& text, const Tokens& tokens) {
  std::vector<Found> found;
  for (std::uint32_t at = 0; at < text.size();) {
    Found best{{at, at}, kNoId};
    for (std::uint32_t id = 0; id < tokens.size(); ++id) {
      const auto bytes = static_cast<std::uint32_t>(tokens[id].size());
      if (bytes > best.range.size() && text.compare(at, bytes, tokens[id]) == 0)
        best = {{at, at + bytes}, id};
    }
    if (best.id != kNoId) found.push_back(best);
    at = best.id != kNoId ? best.range.end : at + 1;
  }
  return found;
}

std::string random_text(std::mt19937& random, std::size_t longest, int letters) {
  std::string text(std::uniform_int_distribution<std::size_t>(1, longest)(random), ' ');
  for (char& c : text)
    c = static_cast<char>('a' + std::uniform_int_distribution(0, letters - 1)(random));
  return text;
}

TEST(TokenFinder, TakesTheLeftmostAndOfThoseTheLongest) {
  EXPECT_EQ(found_in("xabcx", {"bc", "ab", "abcd"}), (std::vector<Found>{{{1, 3}, 1}}));
  EXPECT_EQ(found_in("abcd", {"bc", "ab", "abcd"}), (std::vector<Found>{{{0, 4}, 2}}));
  EXPECT_EQ(found_in("aaaaa", {"a", "aaa"}),
            (std::vector<Found>{{{0, 3}, 1}, {{3, 4}, 0}, {{4, 5}, 0}}));
  EXPECT_TRUE(found_in("abc", {}).empty());
}

TEST(TokenFinder, AgreesWithThePlainSearchOnRandomVocabularies) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const int letters = 1 + round % 3;
    Tokens tokens;
    for (int i = round % 12; i > 0; --i) tokens.push_back(random_text(random, 6, letters));
    const std::string text = random_text(random, 40, letters);
    EXPECT_EQ(found_in(text, tokens), found_plainly(text, tokens)) << text;
  }
}

// A search that begins again at each place looks up 4,000 edges a byte here.
TEST(TokenFinder, LooksUpTwoEdgesAByteBesideLongTokens) {
  const std::string letters(4000, 'a');
  for (const Tokens& tokens : {Tokens{letters + "b"}, Tokens{"b" + letters},
                               Tokens{"a", letters + "b"}, Tokens{letters + "b" + letters}}) {
    std::vector<Found> found;
    EXPECT_LE(finder_of(tokens).find_all(std::string(100'000, 'a'), found), 200'000U);
    EXPECT_EQ(found.size(), tokens.size() == 2 ? 100'000U : 0U);
  }
}

}  // namespace
}  // namespace accelerate::detail
