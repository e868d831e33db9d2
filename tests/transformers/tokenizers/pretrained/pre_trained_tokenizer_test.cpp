#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/transformers/tokenizers/pretrained/folder_support.h"

namespace accelerate {
namespace {

using testing::message_of;
using testing::TokenizerFolder;

using Row = BatchEncoding::Row;

class PreTrained : public ::testing::Test {
 protected:
  TokenizerFolder folder_ = testing::golden_folder("vocab.txt");
  PreTrainedTokenizer tokenizer_ = folder_.open();
  /// Words and nothing else.
  PreTrainedTokenizer plain_{testing::open(testing::word_level_json())};

  std::string refusal(const Texts& text, const TokenizerCallOptions& options) {
    return message_of<UsageError>([&] { (void)tokenizer_(text, options); });
  }
};

TEST_F(PreTrained, RefusesWordsThatAreNoChoice) {
  EXPECT_NE(message_of<UsageError>([] { (void)Truncation("some"); }).find("only_first"),
            std::string::npos);
  EXPECT_NE(message_of<UsageError>([] { (void)Padding("some"); }).find("max_length"),
            std::string::npos);
}

TEST_F(PreTrained, RefusesOptionsThatContradictEachOther) {
  EXPECT_NE(refusal("fox",
                    {.truncation = true, .padding = true, .max_length = 6, .pad_to_multiple_of = 4})
                .find("multiple"),
            std::string::npos);
  EXPECT_NE(refusal("the fox", {.truncation = true, .max_length = 1}).find("no room"),
            std::string::npos);
  EXPECT_NE(
      refusal("the fox jumps", {.truncation = true, .max_length = 4, .stride = 2}).find("stride"),
      std::string::npos);
  EXPECT_NE(refusal("the fox jumps", {.truncation = "only_second", .max_length = 4}).find("second"),
            std::string::npos);
}

TEST_F(PreTrained, RefusesTextsWithoutAPairEach) {
  const Texts two({"fox", "dog"});
  EXPECT_NE(
      refusal(two, {.text_pair = Texts(std::vector<std::string>{"a"})}).find("1 texts in a list"),
      std::string::npos);
  EXPECT_NE(refusal("fox", {.text_pair = two}).find("2 texts in a list"), std::string::npos);
  EXPECT_NE(refusal(two, {.text_pair = "a"}).find("1 texts, and"), std::string::npos);
}

TEST_F(PreTrained, RefusesWordsAndTextsThatDoNotFitTheOptionsOfTheCall) {
  const Texts words(std::vector<std::vector<std::string>>{{"the", "fox"}, {"dog"}});
  const Texts list({"the", "fox"});
  const struct {
    std::string message, part;
  } rows[]{
      {refusal(words, {}), "Set is_split_into_words"},
      {refusal("the fox", {.is_split_into_words = true}), "text is a string"},
      {refusal(list, {.text_pair = "dog", .is_split_into_words = true}), "text_pair is a string"},
      {refusal(list, {.text_pair = words, .is_split_into_words = true}), "2 lists of words"},
      {refusal(words, {.text_pair = list, .is_split_into_words = true}), "1 lists of words"},
      {refusal("fox", {.text_pair = words}), "Set is_split_into_words"},
      {refusal("fox", {.return_tensors = "pt"}), "to_inputs()"},
      {refusal({}, {}), "neither a text nor a text_target"},
      {message_of<UsageError>([&] { (void)tokenizer_.encode(list); }), "a list of texts"},
  };
  for (const auto& [message, part] : rows)
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(tokenizer_.encode(list, {.is_split_into_words = true}), tokenizer_.encode("the fox"));
}

TEST_F(PreTrained, RefusesToAlignLabelsThatWordsLack) {
  const auto batch = tokenizer_(std::vector<std::vector<std::string>>{{"the", "fox"}, {"dog"}},
                                {.is_split_into_words = true});
  const auto message = [&](const BatchEncoding::Column& labels) {
    return message_of<UsageError>([&] { (void)batch.align_labels(labels); });
  };
  EXPECT_NE(message({{1, 2}}).find("labels of 1 texts, and 2 texts"), std::string::npos);
  EXPECT_NE(message({{1}, {2}}).find("word 1 has no label"), std::string::npos);
}

TEST_F(PreTrained, RefusesToPadWithoutAPadToken) {
  const Texts two({"fox", "fox dog"});
  EXPECT_NE(message_of<UsageError>([&] { (void)plain_(two, {.padding = true}); }).find("pad_token"),
            std::string::npos);
  EXPECT_EQ(plain_.add_special_tokens({.pad_token = AddedToken{.content = "[PAD]"}}), 1U);
  EXPECT_EQ(plain_(two, {.padding = true}).input_ids(), (BatchEncoding::Column{{1, 3}, {1, 2}}));
}

TEST_F(PreTrained, RefusesToPadOutOfProportion) {
  const std::size_t huge = std::size_t{1} << 60;
  EXPECT_THROW((void)tokenizer_("fox", {.padding = "max_length", .max_length = huge}), UsageError);
  EXPECT_THROW((void)tokenizer_("fox", {.padding = true, .pad_to_multiple_of = huge}), UsageError);
  const BatchEncoding batch({{"input_ids", {{1}}}});
  EXPECT_THROW((void)tokenizer_.pad(batch, {.padding = "max_length", .max_length = huge}),
               UsageError);
  EXPECT_THROW((void)tokenizer_.pad(batch, {.pad_to_multiple_of = huge}), UsageError);
}

TEST_F(PreTrained, OfNoTextsMakesColumnsWithoutRows) {
  const BatchEncoding batch = tokenizer_(std::vector<std::string>{}, {.padding = true});
  EXPECT_EQ(batch.size(), 0U);
  EXPECT_TRUE(batch.contains("input_ids"));
}

TEST_F(PreTrained, RefusesIdsThatAreNone) {
  EXPECT_NE(message_of<UsageError>([&] { (void)tokenizer_.decode(Row{-100}); }).find("-100"),
            std::string::npos);
  EXPECT_THROW((void)tokenizer_.decode(Row{std::int64_t{1} << 40}), UsageError);
  EXPECT_THROW((void)tokenizer_.convert_ids_to_tokens(Row{999}), UsageError);
}

TEST_F(PreTrained, UnknownTokensHaveTheUnknownIdOrNone) {
  EXPECT_EQ(tokenizer_.convert_tokens_to_ids("nowhere"), tokenizer_.unk_token_id());
  EXPECT_EQ(plain_.convert_tokens_to_ids("nowhere"), std::nullopt);
  const std::vector<std::string> tokens{"fox", "nowhere"};
  EXPECT_THROW((void)plain_.convert_tokens_to_ids(tokens), UsageError);
}

TEST_F(PreTrained, CopiesShareEverything) {
  auto copy = tokenizer_;
  copy.set_model_max_length(4);
  copy.set_padding_side(Side::left);
  copy.add_tokens({{.content = "<new>"}});
  EXPECT_EQ(tokenizer_.model_max_length(), 4U);
  EXPECT_EQ(tokenizer_.padding_side(), Side::left);
  EXPECT_EQ(tokenizer_("the fox jumps <new>", {.truncation = true}).input_ids()[0].size(), 4U);
  EXPECT_EQ(tokenizer_.size(), copy.size());
}

TEST_F(PreTrained, SpecialTokensAreAddedMarkedAndSaved) {
  const SpecialTokens tokens{.bos_token = AddedToken{.content = "<bos>", .lstrip = true},
                             .extra_special_tokens = {{.content = "<x>"}}};
  EXPECT_EQ(tokenizer_.add_special_tokens(tokens), 2U);
  const auto ids = tokenizer_.encode("the   <bos> fox<x>", {.add_special_tokens = false});
  EXPECT_EQ(tokenizer_.get_special_tokens_mask(ids), (Row{0, 1, 0, 1}));
  const testing::TemporaryFolder saved;
  tokenizer_.save_pretrained(saved.path());
  const auto again = AutoTokenizer::from_pretrained(saved.path().string());
  EXPECT_EQ(again.bos_token(), "<bos>");
  EXPECT_EQ(again.extra_special_tokens(), std::vector<std::string>{"<x>"});
  EXPECT_EQ(again.encode("the   <bos> fox<x>", {.add_special_tokens = false}), ids);
}

TEST_F(PreTrained, ATokenizerMadeByHandIsSavedAndOpens) {
  const testing::TemporaryFolder saved;
  plain_.save_pretrained(saved.path());
  const auto again = AutoTokenizer::from_pretrained(saved.path().string());
  EXPECT_EQ(again.encode("fox cat dog"), (Row{1, 0, 2}));
  EXPECT_EQ(again.model_max_length(), std::nullopt);
}

TEST_F(PreTrained, ATokenizerMadeByHandHasThePadTokenOfItsPadding) {
  Tokenizer backend = testing::open(testing::word_level_json());
  backend.set_padding(PaddingOptions{.side = Side::left, .token = "[PAD]"});
  const PreTrainedTokenizer tokenizer(std::move(backend));
  EXPECT_EQ(tokenizer.pad_token(), "[PAD]");
  EXPECT_EQ(tokenizer.padding_side(), Side::left);
  EXPECT_EQ(tokenizer({"fox", "fox dog"}, {.padding = true}).input_ids(),
            (BatchEncoding::Column{{*tokenizer.pad_token_id(), 1}, {1, 2}}));
  EXPECT_EQ(tokenizer.tokenize("fox dog", {.text_pair = "fox"}).size(), 3U);
}

TEST_F(PreTrained, MayBeCalledBySeveralThreads) {
  const Texts texts(std::vector<std::string>(50, "the fox jumps over the lazy dog"));
  const auto want = tokenizer_(texts, {.padding = true}).input_ids();
  std::vector<BatchEncoding> found(6);
  {
    std::vector<std::jthread> threads;
    for (auto& batch : found)
      threads.emplace_back([&] { batch = tokenizer_(texts, {.padding = true}); });
  }
  for (const auto& batch : found) EXPECT_EQ(batch.input_ids(), want);
}

TEST_F(PreTrained, StrictTextsMustBeUtf8) {
  EXPECT_THROW((void)tokenizer_("fox\xff", {.strict_utf8 = true}), DataError);
  EXPECT_EQ(tokenizer_("fox\xff", {}).size(), 1U);
}

TEST_F(PreTrained, SaysWhatToUseInsteadOfWhatIsNotHere) {
  EXPECT_THROW(tokenizer_.apply_chat_template(), UsageError);
  EXPECT_THROW(tokenizer_.train_new_from_iterator(), UsageError);
}

// --- Columns ---

TEST(BatchColumns, NeedAsManyRowsAndANameThatIsThere) {
  BatchEncoding batch({{"input_ids", {{1}, {2}}}});
  EXPECT_THROW(batch.set("labels", {{1}}), UsageError);
  const auto message = message_of<UsageError>([&] { (void)batch["labels"]; });
  EXPECT_NE(message.find("'labels'"), std::string::npos);
  EXPECT_NE(message.find("it has input_ids"), std::string::npos);
  EXPECT_THROW((void)BatchEncoding({{"a", {{1}}}, {"b", {}}}), UsageError);
}

TEST(BatchColumns, KeepTheOrderInWhichTheyWerePutIn) {
  BatchEncoding batch({{"b", {{1}}}, {"a", {{2}}}});
  batch.set("b", {{3}});
  EXPECT_EQ(batch.keys(), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(batch["b"], BatchEncoding::Column{{3}});
}

TEST_F(PreTrained, CharactersTokensAndWordsBelongTogether) {
  const auto batch = tokenizer_("the foxs", {.text_pair = "a dog"});
  EXPECT_EQ(batch.char_to_token(0, 5), 2U);
  EXPECT_EQ(batch.char_to_token(0, 3), std::nullopt);
  EXPECT_EQ(batch.char_to_token(0, 2, 1), batch.char_to_token(0, 3, 1));
  EXPECT_EQ(batch.token_to_chars(0, 0), std::nullopt);
  EXPECT_EQ(batch.token_to_chars(0, 2), (Offsets{4, 7}));
  EXPECT_EQ(batch.word_to_tokens(0, 1), (std::pair<std::size_t, std::size_t>{2, 4}));
  EXPECT_EQ(batch.word_to_tokens(0, 7), std::nullopt);
  EXPECT_EQ(batch.sequence_ids()[0], kNone);
}

TEST_F(PreTrained, RowsAndTokensThatAreNotThereAreRefused) {
  const auto batch = tokenizer_("fox");
  EXPECT_THROW((void)batch.tokens(1), UsageError);
  EXPECT_THROW((void)batch.token_to_chars(0, 99), UsageError);
}

}  // namespace
}  // namespace accelerate
