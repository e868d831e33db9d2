// SentencePiece models, whole and damaged.
#include "accelerate/transformers/tokenizers/pretrained/sentencepiece_model.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "tests/transformers/tokenizers/pretrained/folder_support.h"

namespace accelerate {
namespace {

using detail::parse_sentencepiece;
using detail::SentencePieceModel;
using testing::message_of;

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number(std::uint64_t field, std::uint64_t value) {
  return varint(field << 3) + varint(value);
}
std::string bytes_of(std::uint64_t field, const std::string& bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string score(float value) {
  std::string bytes = varint(2 << 3 | 5);
  for (int i = 0; i < 4; ++i)
    bytes += static_cast<char>(std::bit_cast<std::uint32_t>(value) >> (8 * i) & 0xFF);
  return bytes;
}
std::string piece(const std::string& text, float value = 0, std::uint64_t kind = 1) {
  return bytes_of(1, bytes_of(1, text) + score(value) + number(3, kind));
}

/// Unigram or BPE: <unk>, then "▁fox" from its letters.
std::string small_model(std::uint64_t algorithm) {
  std::string model = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3);
  float value = 0;
  for (const char* const text : {"▁", "f", "o", "x", "fo", "fox", "▁fox"})
    model += piece(text, value -= 1);
  return model + bytes_of(2, number(3, algorithm) + number(40, 0)) + bytes_of(3, number(3, 1));
}

std::string refusal_of(const std::string& bytes) {
  return message_of<ConfigError>([&] { (void)parse_sentencepiece(bytes, "some/spiece.model"); });
}

void expect_refused(const std::string& bytes, const std::string& part) {
  const auto message = refusal_of(bytes);
  EXPECT_EQ(message.rfind("some/spiece.model: ", 0), 0U) << message;
  EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
}

testing::TokenizerFolder folder_of(const std::string& model, const std::string& config = "{}") {
  return testing::TokenizerFolder({{"spiece.model", model}, {"tokenizer_config.json", config}});
}

TEST(SentencePiece, ReadsPiecesScoresAndKinds) {
  const auto model = parse_sentencepiece(small_model(2), "x");
  EXPECT_EQ(model.algorithm, SentencePieceModel::Algorithm::bpe);
  EXPECT_EQ(model.pieces.size(), 10U);
  EXPECT_EQ(model.pieces[1].kind, SentencePieceModel::Kind::control);
  EXPECT_EQ(model.pieces[3].score, -1.0F);
}

TEST(SentencePiece, CutShortAnywhereIsRefusedOrIsASmallerModel) {
  const std::string whole = small_model(1);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    try {
      EXPECT_LE(parse_sentencepiece(whole.substr(0, size), "some/spiece.model").pieces.size(), 10U);
    } catch (const ConfigError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("some/spiece.model: "), std::string::npos) << message;
      EXPECT_NE(message.find("before byte "), std::string::npos) << message;
    }
  }
}

TEST(SentencePiece, WithAByteChangedIsReadOrRefused) {
  const std::string whole = small_model(2);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char change : {'\x01', '\x04', '\x7F', '\xFF'}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      try {
        (void)parse_sentencepiece(damaged, "x");
      } catch (const ConfigError&) {
      }
    }
  }
}

TEST(SentencePiece, WithFieldsOfAnotherKindIsRefused) {
  expect_refused(number(1, 7), "has the field 1 as another kind than bytes, before byte 2 of 2");
  expect_refused(bytes_of(1, number(1, 7)), "the field 1 as another kind than bytes");
  expect_refused(bytes_of(1, bytes_of(1, "a") + number(2, 7)),
                 "the field 2 as another kind than a float");
  expect_refused(bytes_of(1, bytes_of(3, "a")), "the field 3 as another kind than a number");
  expect_refused(bytes_of(2, bytes_of(3, "a")), "the field 3 as another kind than a number");
  expect_refused(bytes_of(2, bytes_of(40, "a")), "the field 40 as another kind");
  expect_refused(bytes_of(3, number(2, 1)), "the field 2 as another kind than bytes");
}

TEST(SentencePiece, WithKindsThatProtocolBuffersLackIsRefused) {
  for (const std::uint64_t kind : {3U, 4U, 6U, 7U})
    expect_refused(varint(1 << 3 | kind), "unknown kind " + std::to_string(kind));
}

TEST(SentencePiece, OfAbsurdLengthsIsRefused) {
  for (const std::uint64_t length : {std::uint64_t{5}, std::uint64_t{1} << 31, UINT64_MAX})
    expect_refused(varint(1 << 3 | 2) + varint(length) + "abc", "ends within a field");
  expect_refused(std::string(11, '\xff'), "more than 64 bits");
}

TEST(SentencePiece, OfAnUnknownAlgorithmOrKindOfPieceIsRefused) {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{5}, UINT64_MAX})
    expect_refused(piece("a") + bytes_of(2, number(3, value)),
                   "unknown algorithm " + std::to_string(value));
  for (const std::uint64_t value : {0U, 7U})
    expect_refused(piece("a", 0, value), "unknown type of a piece");
}

TEST(SentencePiece, OfScoresThatAreNoNumbersIsRefused) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    expect_refused(piece("a", value), "not a finite number");
}

TEST(SentencePiece, OfPiecesThatAreNoUtf8IsRefused) {
  expect_refused(piece("a\xff"), "has a piece that is not UTF-8");
}

TEST(SentencePiece, WithoutPiecesIsRefused) {
  expect_refused("", "has no pieces");
}

TEST(SentencePiece, WhoseUnknownTokenLiesOutsideIsRefused) {
  expect_refused(piece("a") + bytes_of(2, number(40, 1)), "names 1 as its unknown token and has 1");
}

TEST(SentencePieceFolder, OfEachAlgorithmCutsAlike) {
  for (const std::uint64_t algorithm : {1U, 2U}) {
    const auto folder = folder_of(small_model(algorithm));
    EXPECT_EQ(folder.open().encode("fox fo"), (std::vector<std::int64_t>{9, 3, 7})) << algorithm;
  }
}

TEST(SentencePieceFolder, OfTheAlgorithmsWordAndCharIsRefusedByName) {
  for (const std::uint64_t algorithm : {3U, 4U}) {
    const auto message = folder_of(small_model(algorithm)).refusal();
    EXPECT_NE(message.find("spiece.model: was trained with the algorithm"), std::string::npos)
        << message;
  }
}

TEST(SentencePieceFolder, CutShortAnywhereOpensOrIsRefusedForEveryClass) {
  const std::string whole = small_model(1);
  for (const char* const name : {"", "LlamaTokenizer", "T5Tokenizer", "XLMRobertaTokenizer",
                                 "AlbertTokenizer", "DebertaV2Tokenizer"}) {
    const std::string config = R"({"tokenizer_class":")" + std::string(name) + R"("})";
    for (std::size_t size = 0; size < whole.size(); size += 5) {
      try {
        (void)folder_of(whole.substr(0, size), config).open().encode("fox");
      } catch (const Error&) {
      }
    }
  }
}

// Quadratic work would run into the test's timeout.
TEST(SentencePieceFolder, OfALongPieceIsOpened) {
  std::string model = small_model(2);
  for (int i = 0; i < 3; ++i) model += piece(std::string(300'000, static_cast<char>('a' + i)), -20);
  EXPECT_EQ(folder_of(model).open().size(), 13U);
}

TEST(SentencePieceFolder, OfAClassThatMakesOtherIdsIsRefusedByItsName) {
  const std::map<std::string, std::string> configs[]{
      {{"tokenizer_config.json", R"({"tokenizer_class":"PegasusTokenizerFast"})"}},
      {{"config.json", R"({"model_type":"pegasus"})"}}};
  for (auto files : configs) {
    files["spiece.model"] = small_model(1);
    const auto message = testing::TokenizerFolder(files).refusal();
    EXPECT_NE(message.find("'PegasusTokenizer', which gives other ids"), std::string::npos)
        << message;
  }
}

TEST(SentencePieceFolder, KeepsItsRolesAndItsTextsWhenSaved) {
  for (const std::uint64_t algorithm : {1U, 2U}) {
    const auto tokenizer = folder_of(small_model(algorithm)).open();
    const testing::TemporaryFolder saved;
    tokenizer.save_pretrained(saved.path());
    const auto again = AutoTokenizer::from_pretrained(saved.path().string());
    EXPECT_EQ(again.special_tokens_map(), tokenizer.special_tokens_map());
    EXPECT_EQ(again.encode("<s>fox</s> "), tokenizer.encode("<s>fox</s> "));
    EXPECT_EQ(again.get_special_tokens_mask(again.encode("<s>fox")).front(), 0);
  }
}

TEST(Unigram, WithUnmatchedIdsThatNoTokenHasIsRefusedByPlace) {
  for (const auto& [ids, part] :
       {std::pair{testing::Json{9}, "which is the id of no token"},
        std::pair{testing::Json("a"), ".model.unmatched is 'a'; allowed is a list"}}) {
    const testing::Json model{{"type", "Unigram"},
                              {"vocab", testing::Json::parse(R"([["<unk>", 0], ["a", -1]])")},
                              {"unk_id", 0},
                              {"unmatched", ids}};
    const auto message =
        message_of<ConfigError>([&] { (void)testing::open(testing::Json{{"model", model}}); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

// Quadratic work would run into the test's timeout.
TEST(SentencePieceFolder, OfManyTokensOfUsersIsOpened) {
  std::string model = small_model(2);
  for (int i = 0; i < 20'000; ++i) model += piece("<user" + std::to_string(i) + ">", 0, 4);
  EXPECT_EQ(folder_of(model).open().encode("<user19999>").back(), 20'009);
}

}  // namespace
}  // namespace accelerate
