#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/transformers/tokenizers/json_support.h"

namespace accelerate {
namespace {

using testing::encodings_golden;
using testing::Json;
using testing::message_of;

Tokenizer golden_tokenizer(const char* kind) {
  return testing::open(encodings_golden()["tokenizers"][kind]["json"]);
}

// Different texts of all lengths, so that threads finish in another order than they began.
std::vector<std::string> many_texts() {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 400; ++i) {
    std::string text = "the fox";
    for (std::size_t word = 0; word < i % 17; ++word)
      text += (word + i) % 3 == 0 ? " dog" : " caf\u00e9s" + std::to_string(i);
    texts.push_back(text);
  }
  return texts;
}

std::vector<TextInput> inputs_of(const std::vector<std::string>& texts) {
  std::vector<TextInput> inputs;
  for (const std::string& text : texts) inputs.push_back({text});
  return inputs;
}

bool is_same(const Encoding& a, const Encoding& b) {
  return a.ids == b.ids && a.offsets == b.offsets && a.tokens == b.tokens && a.words == b.words;
}

class Batches : public ::testing::TestWithParam<const char*> {
 protected:
  Tokenizer tokenizer_ = golden_tokenizer(GetParam());
  std::vector<std::string> texts_ = many_texts();
};

TEST_P(Batches, HoldWhatEncodingOneByOneGives) {
  const auto batch = tokenizer_.encode_batch(inputs_of(texts_));
  ASSERT_EQ(batch.size(), texts_.size());
  for (std::size_t i = 0; i < batch.size(); ++i)
    EXPECT_TRUE(is_same(batch[i], tokenizer_.encode(texts_[i]))) << texts_[i];
}

TEST_P(Batches, OfManyThreadsAreEqual) {
  const auto want = tokenizer_.encode_batch(inputs_of(texts_));
  std::vector<std::vector<Encoding>> found(6);
  {
    std::vector<std::jthread> threads;
    for (auto& batch : found) {
      threads.emplace_back(
          [&, tokenizer = tokenizer_] { batch = tokenizer.encode_batch(inputs_of(texts_)); });
    }
  }
  for (const auto& batch : found) {
    for (std::size_t i = 0; i < batch.size(); ++i) EXPECT_TRUE(is_same(batch[i], want[i]));
  }
}

TEST_P(Batches, TokensCoverTheTextInOrder) {
  for (const std::string& text : texts_) {
    const auto encoding =
        tokenizer_.encode(text, {.add_special_tokens = false, .offsets_in_bytes = true});
    std::uint32_t end = 0;
    for (const Offsets& offsets : encoding.offsets) {
      EXPECT_LE(offsets.begin, offsets.end);
      EXPECT_LE(offsets.end, text.size());
      EXPECT_LE(end, offsets.end);
      end = offsets.end;
    }
    EXPECT_EQ(end, text.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Batches,
                         ::testing::Values("bert", "byte_level", "unigram", "byte_fallback"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(EncodeBatch, OfNothingIsEmpty) {
  EXPECT_TRUE(golden_tokenizer("bert").encode_batch({}).empty());
}

TEST(EncodeBatch, ThrowsWhatOneOfItsTextsThrows) {
  const auto tokenizer = golden_tokenizer("bert");
  std::vector<TextInput> inputs(100, TextInput{"the fox"});
  inputs[63].text = "\xff";
  EXPECT_THROW((void)tokenizer.encode_batch(inputs, {.strict = true}), DataError);
  EXPECT_EQ(tokenizer.encode_batch(inputs).size(), 100U);
}

TEST(EncodeBatch, RefusesToPadOutOfProportion) {
  auto tokenizer = golden_tokenizer("bert");
  tokenizer.set_padding(PaddingOptions{.length = std::size_t{1} << 60});
  EXPECT_THROW((void)tokenizer.encode("the fox"), UsageError);
  tokenizer.set_padding(PaddingOptions{.multiple_of = SIZE_MAX});
  EXPECT_THROW((void)tokenizer.encode("the fox"), UsageError);
}

TEST(TokenizerHandle, CopiesShareAddedTokens) {
  auto tokenizer = golden_tokenizer("bert");
  const auto copy = tokenizer;
  EXPECT_EQ(tokenizer.add_tokens({{.content = "<new>"}}), 1U);
  EXPECT_EQ(copy.token_to_id("<new>"), tokenizer.token_to_id("<new>"));
}

TEST(TokenizerHandle, CopiesHaveTheirOwnTruncationAndPadding) {
  auto tokenizer = golden_tokenizer("bert");
  auto copy = tokenizer;
  copy.set_truncation(TruncationOptions{.max_length = 3});
  copy.set_padding(PaddingOptions{.length = 9});
  EXPECT_EQ(tokenizer.encode("the fox jumps").size(), 6U);
  EXPECT_EQ(copy.encode("the fox jumps").size(), 9U);
}

TEST(TokenizerHandle, WritesTruncationAndPaddingIntoItsFile) {
  auto tokenizer = golden_tokenizer("bert");
  tokenizer.set_truncation(TruncationOptions{.max_length = 7, .stride = 2, .side = Side::left});
  tokenizer.set_padding(PaddingOptions{.length = 9, .side = Side::left, .id = 4, .token = "\xff"});
  const auto again = Tokenizer::from_text(tokenizer.to_text());
  EXPECT_EQ(again.truncation()->max_length, 7U);
  EXPECT_EQ(again.truncation()->stride, 2U);
  EXPECT_EQ(again.padding()->length, 9U);
  EXPECT_EQ(again.padding()->token, "\ufffd");
}

TEST(AddTokens, CountsOnlyNewOnesAndSkipsEmptyOnes) {
  auto tokenizer = golden_tokenizer("bert");
  const auto size = tokenizer.vocab_size();
  EXPECT_EQ(tokenizer.add_tokens({{.content = "fox"}, {.content = ""}, {.content = "<a>"}}), 1U);
  EXPECT_EQ(tokenizer.add_tokens({{.content = "<a>"}}), 0U);
  EXPECT_EQ(tokenizer.vocab_size(), size + 1);
}

TEST(AddTokens, RefusesWhatIsNoUtf8) {
  auto tokenizer = golden_tokenizer("bert");
  const auto message =
      message_of<UsageError>([&] { (void)tokenizer.add_tokens({{.content = "a\xf0"}}); });
  EXPECT_NE(message.find("'a\ufffd'"), std::string::npos) << message;
}

TEST(AddTokens, RefusesWhatHasNoIdLeft) {
  Json json = testing::word_level_json();
  json["added_tokens"] = {{{"id", 4294967294}, {"content", "<last>"}}};
  auto tokenizer = testing::open(json);
  EXPECT_EQ(tokenizer.encode("<last>").ids.at(0), 4294967294U);
  EXPECT_THROW((void)tokenizer.add_tokens({{.content = "<more>"}}), UsageError);
}

// As `tokenizers` 0.23.3 finds them.
TEST(AddTokens, FindsTheFirstSpecialOneOfTokensThatNormalizeAlike) {
  for (const bool second_is_special : {false, true}) {
    Json json = testing::word_level_json();
    json["normalizer"] = {{"type", "Lowercase"}};
    auto tokenizer = testing::open(json);
    tokenizer.add_tokens({{.content = "B"}, {.content = "b", .special = second_is_special}});
    const auto first = tokenizer.token_to_id("B"), second = tokenizer.token_to_id("b");
    EXPECT_EQ(tokenizer.encode("b").ids, std::vector{*(second_is_special ? second : first)});
  }
}

TEST(Join, RepairsTokensThatAreNoUtf8) {
  for (const char* const kind : {"bert", "byte_level", "unigram", "byte_fallback", "word_level"})
    EXPECT_EQ(golden_tokenizer(kind).join({"a\xf0"}), "a\ufffd") << kind;
}

TEST(Decode, LeavesOutIdsWithoutAToken) {
  const std::vector<std::uint32_t> ids{6, 9999, 5, 4294967295U};
  EXPECT_EQ(golden_tokenizer("bert").decode(ids), "fox the");
}

}  // namespace
}  // namespace accelerate
