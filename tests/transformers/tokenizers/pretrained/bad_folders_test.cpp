// Folders whose files are damaged, missing or of unknown classes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "tests/transformers/tokenizers/pretrained/folder_support.h"

namespace accelerate {
namespace {

using testing::Json;
using testing::message_of;
using testing::TokenizerFolder;

using Files = std::map<std::string, std::string>;

void expect_all_in(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
}

/// A folder that opens, but for its tokenizer_config.json.
TokenizerFolder with_config(const std::string& config) {
  return TokenizerFolder(
      {{"tokenizer.json", testing::word_level_json().dump()}, {"tokenizer_config.json", config}});
}
TokenizerFolder with_config(const char* key, const Json& value) {
  return with_config(Json{{key, value}}.dump());
}

TEST(Folder, WithoutFilesIsAFileErrorThatNamesThem) {
  const TokenizerFolder folder({});
  expect_all_in(message_of<FileError>([&] { (void)folder.open(); }),
                {folder.path(), "tokenizer.json", "vocab.txt", "spiece.model"});
}

TEST(Folder, WithoutAConfigurationOpens) {
  const TokenizerFolder folder({{"tokenizer.json", testing::word_level_json().dump()}});
  EXPECT_EQ(folder.open().encode("fox"), std::vector<std::int64_t>{1});
}

TEST(Folder, WithADamagedTokenizerJsonIsRefusedByItsPath) {
  const TokenizerFolder folder({{"tokenizer.json", "{"}, {"vocab.txt", "a\n"}});
  expect_all_in(folder.refusal(), {folder.path() + "/tokenizer.json"});
}

TEST(TokenizerConfig, ThatIsNoObjectIsRefusedByItsPath) {
  for (const char* const text : {"", "{", "[]", "7", "null", "{\"a\":1}}", "\xff"}) {
    const auto folder = with_config(std::string(text));
    expect_all_in(folder.refusal(),
                  {folder.path() + "/tokenizer_config.json: is not a JSON object"});
  }
}

TEST(TokenizerConfig, ThatIsNestedDeeplyIsRefused) {
  for (const std::size_t levels : {100U, 10'000U, 1'000'000U}) {
    const std::string value = std::string(levels, '[') + std::string(levels, ']');
    expect_all_in(with_config("{\"x\":" + value + "}").refusal(),
                  {"tokenizer_config.json", "64 levels"});
  }
}

struct Damage {
  const char* key;
  std::vector<Json> values;
};

class DamagedConfig : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedConfig, IsRefusedByFileAndKey) {
  for (const Json& value : GetParam().values) {
    const auto folder = with_config(GetParam().key, value);
    expect_all_in(folder.refusal(),
                  {folder.path() + "/tokenizer_config.json: '" + GetParam().key + "'", "allowed"});
  }
}

const Json kBadFlag{{"content", "a"}, {"lstrip", "yes"}};

INSTANTIATE_TEST_SUITE_P(
    Fields, DamagedConfig,
    ::testing::Values(
        Damage{"tokenizer_class", {7, true, Json::array(), Json::object()}},
        Damage{"bos_token",
               {7, true, Json::array(), Json{{"id", 3}}, Json{{"content", 3}}, kBadFlag}},
        Damage{"unk_token", {1.5, kBadFlag}}, Damage{"pad_token", {1.5, kBadFlag}},
        Damage{"extra_special_tokens",
               {7, "a", Json::array({7}), Json::array({nullptr}), Json::array({kBadFlag})}},
        Damage{"additional_special_tokens", {false, Json::array({Json::array()})}},
        Damage{"added_tokens_decoder",
               {7, "a", Json::array(), Json{{"x", {{"content", "a"}}}},
                Json{{"-1", {{"content", "a"}}}}, Json{{"99999999999", {{"content", "a"}}}},
                Json{{"3", "a"}}, Json{{"3", {{"id", 3}}}}, Json{{"3", kBadFlag}},
                Json{{"3", {{"content", "a"}, {"special", "yes"}}}}}},
        Damage{"model_max_length", {-1, 1.5, "512", true, Json::array()}},
        Damage{"max_len", {-1, "512"}}, Damage{"padding_side", {"up", 7}},
        Damage{"truncation_side", {"Right", true}},
        Damage{"model_input_names", {7, "input_ids", Json::array(), Json::array({7})}},
        Damage{"clean_up_tokenization_spaces", {"yes", 1}}, Damage{"add_prefix_space", {"yes", 1}},
        Damage{"add_bos_token", {"yes", 1}}, Damage{"do_lower_case", {"yes", 1}}),
    [](const auto& damage) {
      std::string name;
      for (const char* c = damage.param.key; *c != '\0'; ++c) {
        if (*c != '_') name += *c;
      }
      return name;
    });

TEST(TokenizerConfig, TakesNoNumberThatIsTooLargeForALimit) {
  for (const Json& value : {Json(1e30), Json(1e19), Json(5e19), Json()}) {
    EXPECT_EQ(with_config("model_max_length", value).open().model_max_length(), std::nullopt);
  }
  EXPECT_EQ(with_config("model_max_length", 512.0).open().model_max_length(), 512U);
}

TEST(TokenizerConfig, TokensOfNothingAreNone) {
  for (const char* const key :
       {"bos_token", "pad_token", "extra_special_tokens", "tokenizer_class"})
    EXPECT_EQ(with_config(key, nullptr).open().size(), 3U) << key;
  EXPECT_EQ(with_config("bos_token", "").open().size(), 3U);
}

TEST(OlderAddedTokens, WithDamagedIdsAreRefused) {
  for (const Json& id : {Json(-1), Json("3"), Json(4294967301), Json(1.5), Json()}) {
    const TokenizerFolder folder({{"tokenizer.json", testing::word_level_json().dump()},
                                  {"added_tokens.json", Json{{"<a>", id}}.dump()}});
    expect_all_in(folder.refusal(), {folder.path() + "/added_tokens.json", "'<a>'"});
  }
}

TEST(OlderSpecialTokens, ThatAreDamagedAreRefusedByFileAndKey) {
  const TokenizerFolder folder({{"tokenizer.json", testing::word_level_json().dump()},
                                {"special_tokens_map.json", R"({"bos_token": 7})"}});
  expect_all_in(folder.refusal(), {folder.path() + "/special_tokens_map.json: 'bos_token' is 7"});
}

// --- vocab.txt ---

TokenizerFolder bert_of(const std::string& words) {
  return TokenizerFolder(
      {{"vocab.txt", words}, {"tokenizer_config.json", R"({"tokenizer_class":"BertTokenizer"})"}});
}

TEST(VocabTxt, ThatIsNoUtf8IsRefusedByItsPath) {
  const auto folder = bert_of("[CLS]\n[SEP]\n\xff\n");
  expect_all_in(folder.refusal(), {folder.path() + "/vocab.txt: is not UTF-8"});
}

TEST(VocabTxt, ThatLacksASpecialTokenIsRefused) {
  expect_all_in(bert_of("").refusal(), {"lacks the special token '[CLS]'"});
  expect_all_in(bert_of("[CLS]\nfox\n").refusal(), {"lacks the special token '[SEP]'"});
}

TEST(VocabTxt, MayEndItsLinesAsWindowsDoes) {
  const auto folder = bert_of("[UNK]\r\n[CLS]\r\n[SEP]\r\nfox");
  EXPECT_EQ(folder.open().encode("fox"), (std::vector<std::int64_t>{1, 3, 2}));
}

TEST(VocabTxt, OfAnUnknownClassIsRefusedWithTheKnownOnes) {
  for (const char* const config :
       {"{}", R"({"tokenizer_class":"OddTokenizer"})", R"({"tokenizer_class":null})"}) {
    const TokenizerFolder folder({{"vocab.txt", "a\n"}, {"tokenizer_config.json", config}});
    expect_all_in(folder.refusal(), {folder.path(), "BertTokenizer", "save_pretrained"});
  }
}

// --- vocab.json and merges.txt ---

TokenizerFolder gpt2_of(const std::string& vocab, const std::string& merges) {
  return TokenizerFolder({{"vocab.json", vocab},
                          {"merges.txt", merges},
                          {"tokenizer_config.json", R"({"tokenizer_class":"GPT2Tokenizer"})"}});
}

TEST(MergesTxt, WithOneOrThreeWordsALineIsRefusedByItsPath) {
  for (const char* const line : {"ab", "a b c", "a  b"}) {
    const auto folder = gpt2_of("{}", std::string("#version: 0.2\n") + line + "\n");
    expect_all_in(folder.refusal(), {folder.path() + "/merges.txt", std::string("'") + line + "'"});
  }
}

TEST(MergesTxt, ThatIsNoUtf8IsRefusedByItsPath) {
  const auto folder = gpt2_of("{}", "a \xff\n");
  expect_all_in(folder.refusal(), {folder.path() + "/merges.txt: is not UTF-8"});
}

TEST(VocabJson, ThatIsDamagedIsRefusedByItsPath) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& text : {std::string(), std::string("[]"), std::string("{\"a\":")}) {
    const auto folder = gpt2_of(text, "");
    expect_all_in(folder.refusal(), {folder.path() + "/vocab.json"});
  }
  expect_all_in(gpt2_of("{\"a\":" + deep + "}", "").refusal(), {"/vocab.json", "64 levels"});
}

TEST(VocabJson, WithDamagedIdsOrWithoutATokenOfAMergeIsRefused) {
  expect_all_in(gpt2_of(R"({"a": -1})", "").refusal(), {"gives 'a' the id -1"});
  expect_all_in(gpt2_of(R"({"a": 0})", "a b\n").refusal(), {"names the token 'b' in merge 0"});
}

}  // namespace
}  // namespace accelerate
