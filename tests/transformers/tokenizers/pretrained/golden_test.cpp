// Calls of tokenizers against what Transformers made: tests/reference/encodings_golden.py.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/transformers/tokenizers/pretrained/folder_support.h"

namespace accelerate {
namespace {

using testing::encodings_golden;
using testing::Json;

Texts texts_of(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  return json.get<std::vector<std::string>>();
}

template <typename Choice>
Choice choice_of(const Json& json) {
  return json.is_boolean() ? Choice(json.get<bool>()) : Choice(json.get<std::string>());
}

template <typename T>
void take(const Json& call, const char* key, T& into) {
  if (call.contains(key)) into = call[key].get<typename std::decay<decltype(into)>::type>();
}

template <typename T>
void take(const Json& call, const char* key, std::optional<T>& into) {
  if (call.contains(key)) into = call[key].get<T>();
}

TokenizerCallOptions options_of(const Json& call) {
  TokenizerCallOptions options;
  if (call.contains("truncation")) options.truncation = choice_of<Truncation>(call["truncation"]);
  if (call.contains("padding")) options.padding = choice_of<Padding>(call["padding"]);
  if (call.contains("text_pair")) options.text_pair = texts_of(call["text_pair"]);
  if (call.contains("padding_side")) options.padding_side = Side::left;
  take(call, "max_length", options.max_length);
  take(call, "stride", options.stride);
  take(call, "pad_to_multiple_of", options.pad_to_multiple_of);
  take(call, "add_special_tokens", options.add_special_tokens);
  take(call, "return_token_type_ids", options.return_token_type_ids);
  take(call, "return_attention_mask", options.return_attention_mask);
  take(call, "return_overflowing_tokens", options.return_overflowing_tokens);
  take(call, "return_special_tokens_mask", options.return_special_tokens_mask);
  return options;
}

Json json_of(const BatchEncoding& batch) {
  Json columns = Json::object();
  for (const auto& [name, column] : batch.columns()) columns[name] = column;
  return columns;
}

class PretrainedGolden : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] static const Json& golden() { return encodings_golden()["pretrained"][GetParam()]; }
  [[nodiscard]] static std::vector<std::int64_t> ids() { return golden()["ids"]; }
  testing::TokenizerFolder folder_ = testing::TokenizerFolder(golden()["files"]);
  PreTrainedTokenizer tokenizer_ = folder_.open();
};

TEST_P(PretrainedGolden, CallsMakePythonsColumns) {
  for (const Json& call : golden()["calls"]) {
    const BatchEncoding batch = tokenizer_(texts_of(call["text"]), options_of(call));
    EXPECT_EQ(json_of(batch), call["want"]) << call;
    if (!call["samples"].is_null()) {
      EXPECT_EQ(Json(batch.overflow_to_sample_mapping()), call["samples"]);
    }
  }
}

TEST_P(PretrainedGolden, IdsAreDecodedAsInPython) {
  const Json& want = golden()["decoded"];
  EXPECT_EQ(tokenizer_.encode("the fox, it's [MASK]!"), ids());
  EXPECT_EQ(Json(tokenizer_.decode(ids())), want[0]);
  EXPECT_EQ(Json(tokenizer_.decode(ids(), true)), want[1]);
  EXPECT_EQ(Json(tokenizer_.decode(ids(), false, true)), want[2]);
  EXPECT_EQ(Json(tokenizer_.batch_decode(std::vector{ids(), ids()})[1]), want[0]);
}

TEST_P(PretrainedGolden, TokensAreThoseOfPython) {
  EXPECT_EQ(Json(tokenizer_.convert_ids_to_tokens(ids())), golden()["tokens"]);
  EXPECT_EQ(Json(tokenizer_.tokenize("the fox's")), golden()["tokenize"]);
  const auto tokens = tokenizer_.convert_ids_to_tokens(ids());
  EXPECT_EQ(tokenizer_.convert_tokens_to_ids(tokens), ids());
}

TEST_P(PretrainedGolden, SpecialTokensAndSizesAreThoseOfPython) {
  EXPECT_EQ(Json(tokenizer_.special_tokens_map()), golden()["special_tokens_map"]);
  EXPECT_EQ(Json(tokenizer_.all_special_ids()), golden()["all_special_ids"]);
  EXPECT_EQ(Json(tokenizer_.size()), golden()["size"]);
  EXPECT_EQ(Json(tokenizer_.vocab_size()), golden()["vocab_size"]);
  const auto limit = tokenizer_.model_max_length();
  EXPECT_EQ(limit ? Json(*limit) : Json(), golden()["model_max_length"]);
}

TEST_P(PretrainedGolden, PadFillsColumnsAsInPython) {
  const std::vector<TokenizerPadOptions> options{
      {}, {.padding = "max_length", .max_length = 5}, {.pad_to_multiple_of = 4}};
  for (std::size_t i = 0; i < options.size(); ++i) {
    BatchEncoding batch({{"input_ids", {{5, 6, 7}, {8}}}});
    EXPECT_EQ(json_of(tokenizer_.pad(batch, options[i])), golden()["padded"][i]) << i;
  }
}

TEST_P(PretrainedGolden, ASavedFolderOpensAgainWithEqualColumns) {
  const testing::TemporaryFolder saved;
  EXPECT_EQ(tokenizer_.save_pretrained(saved.path() / "a" / "b").size(), 2U);
  const auto again = AutoTokenizer::from_pretrained((saved.path() / "a" / "b").string());
  for (const Json& call : golden()["calls"])
    EXPECT_EQ(json_of(again(texts_of(call["text"]), options_of(call))), call["want"]) << call;
  EXPECT_EQ(again.special_tokens_map(), tokenizer_.special_tokens_map());
  EXPECT_EQ(again.extra_special_tokens(), tokenizer_.extra_special_tokens());
  EXPECT_EQ(again.model_max_length(), tokenizer_.model_max_length());
}

INSTANTIATE_TEST_SUITE_P(Folders, PretrainedGolden,
                         ::testing::Values("vocab.txt", "tokenizer.json"), [](const auto& folder) {
                           return std::string(folder.param) == "vocab.txt" ? "VocabTxt"
                                                                           : "TokenizerJson";
                         });

TEST(NamedTokens, AreThoseOfPythonAndComeBackFromASavedFolder) {
  for (const Json& row : encodings_golden()["names"]) {
    const testing::TokenizerFolder folder(row["files"]);
    const testing::TemporaryFolder saved;
    const auto tokenizer = folder.open();
    (void)tokenizer.save_pretrained(saved.path());
    for (const auto& one : {tokenizer, AutoTokenizer::from_pretrained(saved.path().string())}) {
      SCOPED_TRACE(row["files"]["tokenizer_config.json"]);
      EXPECT_EQ(Json(one.special_tokens_map()), row["special_tokens_map"]);
      EXPECT_EQ(Json(one.all_special_tokens()), row["all_special_tokens"]);
      EXPECT_EQ(Json(one.extra_special_tokens()), row["extra_special_tokens"]);
      EXPECT_EQ(Json(one.all_special_ids()), row["ids"]);
    }
  }
}

TEST(OlderVocabulary, EndsNoWordWithWhiteSpace) {
  const Json& golden = encodings_golden()["white_words"];
  const auto tokenizer = testing::TokenizerFolder(golden["files"]).open();
  for (std::size_t id = 0; id < golden["tokens"].size(); ++id)
    EXPECT_EQ(
        Json(
            tokenizer.backend_tokenizer().id_to_token(static_cast<std::uint32_t>(id)).value_or("")),
        golden["tokens"][id]);
}

TEST(ClipDecoding, StripsWhatPythonCallsSpace) {
  const Json& golden = encodings_golden()["clip"];
  const auto tokenizer = testing::TokenizerFolder(golden["files"]).open();
  for (const Json& row : golden["rows"])
    EXPECT_EQ(Json(tokenizer.decode(row[0].get<std::vector<std::int64_t>>())), row[1]) << row[0];
}

}  // namespace
}  // namespace accelerate
