// Damaged models, and texts that a model cannot spell.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/transformers/tokenizers/json_support.h"

namespace accelerate {
namespace {

using testing::Json;
using testing::message_of;
using testing::only_model;
using testing::refusal_of;

using Ids = std::vector<std::uint32_t>;

void expect_in(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
}

Json bpe(Json vocab, Json merges) {
  return {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", std::move(merges)}};
}
template <typename... Parts>
Json list(const Parts&... parts) {
  Json made = Json::array();
  (made.push_back(parts), ...);
  return made;
}
Json unigram(Json vocab, Json unk_id) {
  return {{"type", "Unigram"}, {"vocab", std::move(vocab)}, {"unk_id", std::move(unk_id)}};
}

TEST(Vocabulary, WithTwoWordsOfOneIdKeepsBoth) {
  const auto tokenizer = testing::open(only_model(
      {{"type", "WordLevel"}, {"unk_token", "fox"}, {"vocab", {{"fox", 0}, {"dog", 0}}}}));
  EXPECT_EQ(tokenizer.encode("fox").ids, Ids{0});
  EXPECT_EQ(tokenizer.encode("dog").ids, Ids{0});
  EXPECT_TRUE(tokenizer.id_to_token(0).has_value());
}

TEST(Vocabulary, WithGapsHasNoTokenThere) {
  const auto tokenizer = testing::open(
      only_model({{"type", "WordLevel"}, {"vocab", {{"<unk>", 5}, {"dog", 1'000'000}}}}));
  EXPECT_EQ(tokenizer.id_to_token(6), std::nullopt);
  EXPECT_EQ(tokenizer.decode(Ids{5, 6, 1'000'000}), "<unk> dog");
}

TEST(Vocabulary, WithDamagedIdsIsRefusedByPlace) {
  const std::vector<Json> ids{-1, 1.5, 4294967295U, 1e30, "3", Json(), Json::array(), 1 << 24};
  for (const Json& id : ids) {
    const auto message = refusal_of(only_model({{"type", "WordLevel"}, {"vocab", {{"fox", id}}}}));
    expect_in(message, "some/tokenizer.json:.model.vocab gives 'fox' the id " + id.dump());
  }
}

TEST(Vocabulary, ThatIsNoMapIsRefused) {
  for (const char* const type : {"WordLevel", "WordPiece"})
    expect_in(refusal_of(only_model({{"type", type}, {"vocab", {"a"}}})), ".model.vocab is a list");
}

TEST(WordLevel, NeedsItsUnknownTokenOnlyForUnknownWords) {
  const auto tokenizer =
      testing::open(only_model({{"type", "WordLevel"}, {"vocab", {{"fox", 0}}}}));
  EXPECT_EQ(tokenizer.encode("fox").ids, Ids{0});
  expect_in(message_of<ConfigError>([&] { (void)tokenizer.encode("dog"); }),
            "some/tokenizer.json:.model knows no token of 'dog', and its unknown token '<unk>'");
}

TEST(WordPiece, NeedsItsUnknownTokenOnlyForUnknownWords) {
  const auto tokenizer =
      testing::open(only_model({{"type", "WordPiece"}, {"vocab", {{"fo", 0}, {"##x", 1}}}}));
  EXPECT_EQ(tokenizer.encode("fox").ids, (Ids{0, 1}));
  for (int time = 0; time < 2; ++time)
    expect_in(message_of<ConfigError>([&] { (void)tokenizer.encode("fog"); }),
              "some/tokenizer.json:.model knows no token of 'fog', and its unknown token '[UNK]'");
  EXPECT_EQ(tokenizer.encode("fox").ids, (Ids{0, 1}));
}

TEST(WordPiece, TakesNoWordOfTooManyCharacters) {
  const auto tokenizer =
      testing::open(only_model({{"type", "WordPiece"},
                                {"max_input_chars_per_word", 2},
                                {"vocab", {{"[UNK]", 0}, {"\u00e9\u00e9", 1}}}}));
  EXPECT_EQ(tokenizer.encode("\u00e9\u00e9").ids, Ids{1});
  EXPECT_EQ(tokenizer.encode("\u00e9\u00e9\u00e9").ids, Ids{0});
}

TEST(Models, OfAnEmptyVocabularyRefuseTextsOrDropThem) {
  const auto dropped = testing::open(only_model(bpe(Json::object(), Json::array())));
  EXPECT_TRUE(dropped.encode("fox").ids.empty());
  for (const char* const type : {"WordLevel", "WordPiece"}) {
    const auto tokenizer = testing::open(only_model({{"type", type}, {"vocab", Json::object()}}));
    EXPECT_TRUE(tokenizer.encode("").ids.empty());
    EXPECT_THROW((void)tokenizer.encode("fox"), ConfigError) << type;
  }
}

TEST(Bpe, WithMergesOfUnknownTokensIsRefusedByTheirNumber) {
  const Json vocab{{"a", 0}, {"b", 1}, {"ab", 2}};
  for (const Json& merge : {Json{"a", "c"}, Json{"c", "b"}, Json{"b", "a"}, Json("b a")}) {
    const auto message = refusal_of(only_model(bpe(vocab, list(list("a", "b"), merge))));
    expect_in(message, "some/tokenizer.json:.model.merges names the token");
    expect_in(message, "in merge 1");
  }
}

TEST(Bpe, WithMergesThatAreNoPairIsRefused) {
  const Json vocab{{"a", 0}, {"b", 1}, {"ab", 2}};
  for (const Json& merge : {Json("ab"), Json("a b c"), Json(7), list("a"), list("a", 1), Json()})
    expect_in(refusal_of(only_model(bpe(vocab, list(list("a", "b"), merge)))),
              "as merge 1; allowed are two");
}

TEST(Bpe, ThatNamesAnUnknownTokenWhichIsMissingRefusesUnknownCharacters) {
  Json model = bpe({{"a", 0}}, Json::array());
  model["unk_token"] = "<unk>";
  const auto tokenizer = testing::open(only_model(model));
  EXPECT_EQ(tokenizer.encode("a").ids, Ids{0});
  expect_in(message_of<ConfigError>([&] { (void)tokenizer.encode("b"); }),
            "knows no token of 'b', and its unknown token '<unk>'");
}

TEST(Bpe, RefusesDropout) {
  Json model = bpe({{"a", 0}}, Json::array());
  model["dropout"] = 0.1;
  expect_in(refusal_of(only_model(model)), ".model.dropout is 0.1");
}

TEST(Unigram, WithAnUnknownTokenOutsideIsRefused) {
  for (const Json& id : {Json(2), Json(4294967294U)})
    expect_in(refusal_of(only_model(unigram(list(list("a", -1.0), list("b", -2.0)), id))),
              "names " + id.dump() + " as its unknown token; it has 2 tokens");
  expect_in(refusal_of(only_model(unigram(list(list("a", -1.0)), -1))), ".model.unk_id is -1");
}

TEST(Unigram, WithoutAnUnknownTokenRefusesUnknownCharacters) {
  const auto tokenizer = testing::open(only_model(unigram(list(list("a", -1.0)), nullptr)));
  EXPECT_EQ(tokenizer.encode("aa").ids, (Ids{0, 0}));
  expect_in(message_of<ConfigError>([&] { (void)tokenizer.encode("ab"); }),
            "some/tokenizer.json:.model knows no token of 'b', and it names no unk_id");
}

TEST(Unigram, WithDamagedPiecesIsRefusedByTheirNumber) {
  for (const Json& piece : {list("b"), list("b", "c"), list("b", nullptr), Json(3), list(1, 2)})
    expect_in(refusal_of(only_model(unigram(list(list("a", -1.0), piece), 0))), ".model.vocab[1]");
}

TEST(Unigram, WithoutPiecesIsRefused) {
  expect_in(refusal_of(only_model(unigram(Json::array(), nullptr))), ".model.vocab is empty");
}

TEST(Unigram, OfEndlessScoresStillCutsTheText) {
  const auto tokenizer = testing::open(only_model(unigram(
      list(list("<unk>", 0), list("a", 1e308), list("aa", -1e308), list("b", 1.7e308)), 0)));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("aabbaa").ids).find('<'), std::string::npos);
}

// --- Texts ---

TEST(TextsThatAreNoUtf8, CountAsPythonReplacesThem) {
  const auto tokenizer = testing::open(
      only_model(unigram(list(list("<unk>", 0), list("\ufffd", -1.0), list("a", -1.0)), 0)));
  // bytes.decode(errors="replace") gives as many U+FFFD.
  const std::vector<std::pair<std::string, std::size_t>> texts{
      {"\xff", 1},         {"\x80\x80", 2},     {"\xe4\xbd", 1},         {"\xf0\x9f\x98", 1},
      {"\xc0\xaf", 2},     {"\xed\xa0\x80", 3}, {"\xf4\x90\x80\x80", 4}, {"\xe0\x80", 2},
      {"\xf0\x80\x80", 3}, {"\xc3\xc3", 2},     {"\xf8\x88", 2}};
  for (const auto& [text, count] : texts) {
    Ids want(count, 1);
    want.push_back(2);
    EXPECT_EQ(tokenizer.encode(text + "a").ids, want) << count;
  }
}

TEST(TextsThatAreNoUtf8, AreDataErrorsWithStrict) {
  const auto tokenizer = testing::open(testing::word_level_json());
  expect_in(message_of<DataError>([&] { (void)tokenizer.encode("fox\xff", {.strict = true}); }),
            "not UTF-8 at its byte 3");
  EXPECT_EQ(tokenizer.encode("fox", {.strict = true}).ids, Ids{1});
}

TEST(Texts, MayHoldNulAndEveryControl) {
  const auto tokenizer = testing::open(testing::word_level_json());
  EXPECT_EQ(tokenizer.encode(std::string("fox \0 dog", 9)).ids, (Ids{1, 0, 2}));
}

}  // namespace
}  // namespace accelerate
