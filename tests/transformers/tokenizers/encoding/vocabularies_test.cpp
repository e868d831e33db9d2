// How scores and vocabularies are read, against the original: tests/reference/vocabularies_golden.py.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "accelerate/transformers/tokenizers/models/unigram_scores.h"
#include "tests/transformers/tokenizers/json_support.h"

namespace accelerate {
namespace {

using testing::Json;
using Ids = std::vector<std::uint32_t>;

const Json& vocabularies_golden() {
  static const Json golden = Json::parse(testing::read_reference("vocabularies_golden.json"));
  return golden;
}

TEST(Scores, AreRoundedAsTheOriginalRoundsThem) {
  std::size_t others = 0;
  for (const Json& row : vocabularies_golden()["numbers"]) {
    const auto spelled = row[0].get<std::string>();
    const double wanted = std::strtod(row[1].get<std::string>().c_str(), nullptr);
    EXPECT_EQ(detail::original_number(spelled), wanted) << spelled;
    others += wanted != std::strtod(spelled.c_str(), nullptr) ? 1 : 0;
  }
  EXPECT_GT(others, 20U);  // Neighbours of the nearest double.
}

TEST(Vocabularies, OfWordsThatComeTwiceAndOfEqualSumsWorkAsInTheOriginal) {
  for (const Json& row : vocabularies_golden()["tokenizers"]) {
    const auto tokenizer = Tokenizer::from_text(row["file"].get<std::string>());
    SCOPED_TRACE(row["file"].get<std::string>().substr(0, 300));
    EXPECT_EQ(tokenizer.vocab_size(), row["size"]);
    Ids known;
    for (std::uint32_t id = 0; id < row["tokens"].size(); ++id) {
      const auto token = tokenizer.id_to_token(id);
      EXPECT_EQ(token ? Json(*token) : Json(), row["tokens"][id]);
      if (token) known.push_back(id);
    }
    EXPECT_EQ(tokenizer.decode(known), row["decoded"]);
    for (const Json& text : row["texts"])
      EXPECT_EQ(tokenizer.encode(text[0].get<std::string>()).ids, text[1].get<Ids>()) << text[0];
  }
}

// As AutoTokenizer has them of SentencePiece's files.
TEST(Scores, MayBeRoundedToTheNearest) {
  std::size_t others = 0;
  for (const Json& row : vocabularies_golden()["tokenizers"]) {
    const auto tokenizer = Tokenizer::from_text(row["file"].get<std::string>(), "tokenizer.json",
                                                ScoreRounding::nearest);
    for (const Json& text : row["texts"]) {
      if (text.size() < 3) continue;
      EXPECT_EQ(tokenizer.encode(text[0].get<std::string>()).ids, text[2].get<Ids>()) << text[0];
      others += text[1] != text[2] ? 1 : 0;
    }
  }
  EXPECT_GT(others, 0U);
}

}  // namespace
}  // namespace accelerate
