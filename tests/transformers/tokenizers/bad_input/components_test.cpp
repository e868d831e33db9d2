// Damaged tokenizer.json files: each is refused by name and place.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "accelerate/base/bytes.h"
#include "accelerate/base/file_system.h"
#include "tests/support/support.h"
#include "tests/transformers/tokenizers/json_support.h"

namespace accelerate {
namespace {

using testing::Json;
using testing::message_of;
using testing::refusal_of;
using testing::word_level_json;
using testing::word_level_with;

void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
}

std::string nested(std::size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

TEST(TokenizerJson, CutShortAnywhereIsRefusedByName) {
  const std::string whole = word_level_json().dump();
  for (std::size_t size = 0; size < whole.size(); ++size)
    expect_parts(refusal_of(whole.substr(0, size)), {"some/tokenizer.json is not JSON", "git-lfs"});
}

TEST(TokenizerJson, NestedDeeplyIsRefused) {
  for (const std::size_t levels : {65U, 10'000U, 1'000'000U})
    expect_parts(refusal_of(R"({"model":)" + nested(levels) + "}"), {"some/tokenizer.json"});
}

TEST(TokenizerJson, ThatIsNoObjectIsRefused) {
  for (const char* const text : {"[]", "7", "\"a\"", "null", "true"})
    expect_parts(refusal_of(std::string(text)), {"some/tokenizer.json:", "allowed is a map"});
}

TEST(TokenizerJson, ThatIsNoUtf8OrHoldsHalfACharacterIsRefused) {
  expect_parts(refusal_of(std::string("{\"model\":\"\xff\"}")), {"some/tokenizer.json"});
  expect_parts(refusal_of(std::string(R"({"model":"\ud800"})")), {"some/tokenizer.json"});
}

TEST(TokenizerJson, WithoutAModelIsRefused) {
  expect_parts(refusal_of(std::string("{}")), {"some/tokenizer.json: has no 'model'"});
}

TEST(TokenizerFile, ThatIsMissingIsAFileError) {
  const auto message =
      message_of<FileError>([] { (void)Tokenizer::from_file("/no/such/tokenizer.json"); });
  expect_parts(message, {"/no/such/tokenizer.json"});
}

TEST(TokenizerFile, ThatIsEmptyOrAPointerIsRefusedByItsPath) {
  const testing::TemporaryFolder folder;
  for (const char* const text : {"", "version https://git-lfs.github.com/spec/v1\n"}) {
    const auto file = folder.write("tokenizer.json", text);
    expect_parts(message_of<ConfigError>([&] { (void)Tokenizer::from_file(file); }),
                 {file.string(), "git-lfs"});
  }
}

TEST(Components, UnknownOnesAreRefusedWithWhatIsAllowed) {
  const std::vector<std::pair<const char*, const char*>> kinds{{"normalizer", "NFKC"},
                                                               {"pre_tokenizer", "ByteLevel"},
                                                               {"model", "WordPiece"},
                                                               {"post_processor", "RobertaProc"},
                                                               {"decoder", "Metaspace"}};
  for (const auto& [kind, allowed] : kinds)
    expect_parts(refusal_of(word_level_with(kind, {{"type", "Magic"}})),
                 {"some/tokenizer.json:." + std::string(kind), "'Magic'", "allowed are", allowed});
}

TEST(Components, WithoutATypeAreRefused) {
  for (const char* const kind : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    expect_parts(refusal_of(word_level_with(kind, Json::object())), {kind, "has no 'type'"});
    expect_parts(refusal_of(word_level_with(kind, "x")), {kind, "is 'x'; allowed is a map"});
  }
}

TEST(Components, WithinASequenceAreNamedByTheirPlace) {
  const Json json{{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "No"}}}}};
  expect_parts(refusal_of(word_level_with("normalizer", json)), {".normalizer.normalizers[1]"});
}

TEST(Components, WithAFieldOfAnotherTypeAreRefused) {
  const std::vector<Json> damaged{
      {{"type", "BertNormalizer"}, {"lowercase", "yes"}},
      {{"type", "Replace"}, {"pattern", 7}, {"content", ""}},
      {{"type", "Replace"}, {"pattern", Json::object()}, {"content", ""}},
      {{"type", "Prepend"}},
      {{"type", "Sequence"}, {"normalizers", 1}}};
  for (const Json& json : damaged)
    expect_parts(refusal_of(word_level_with("normalizer", json)), {"json:.normalizer"});
}

TEST(Components, WithAPatternThatIsRefusedAreNamedByTheirPlace) {
  const Json json{{"type", "Split"}, {"pattern", {{"Regex", "a**"}}}, {"behavior", "Removed"}};
  expect_parts(refusal_of(word_level_with("pre_tokenizer", json)),
               {"some/tokenizer.json:.pre_tokenizer.pattern.Regex", "'a**'", "character 3"});
}

TEST(Components, CutAtOneCharacterOnly) {
  for (const char* const text : {"", "ab"}) {
    expect_parts(refusal_of(word_level_with("pre_tokenizer",
                                            {{"type", "CharDelimiterSplit"}, {"delimiter", text}})),
                 {".pre_tokenizer.delimiter", "allowed is one character"});
    expect_parts(refusal_of(word_level_with("decoder", {{"type", "Strip"}, {"content", text}})),
                 {".decoder", "allowed is one character"});
    expect_parts(
        refusal_of(word_level_with("decoder", {{"type", "Metaspace"}, {"replacement", text}})),
        {".decoder", "allowed is one character"});
  }
}

Json template_json(Json single) {
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", Json::array()},
          {"special_tokens", Json::object()}};
}

TEST(Template, ThatNamesAnUnknownSpecialTokenIsRefused) {
  const Json single{{{"SpecialToken", {{"id", "[CLS]"}, {"type_id", 0}}}}};
  expect_parts(refusal_of(word_level_with("post_processor", template_json(single))),
               {".post_processor", "'[CLS]'"});
}

TEST(Template, OfASingleTextThatUsesTheSecondIsRefused) {
  const Json single{{{"Sequence", {{"id", "B"}, {"type_id", 0}}}}};
  expect_parts(refusal_of(word_level_with("post_processor", template_json(single))),
               {".post_processor", "second text"});
}

TEST(Template, BehindOneThatDropsTheTextIsRefusedWhenItIsUsed) {
  const Json keeps = template_json({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}});
  const Json drops = template_json(Json::array());
  const auto tokenizer = testing::open(
      word_level_with("post_processor", {{"type", "Sequence"}, {"processors", {drops, keeps}}}));
  expect_parts(message_of<ConfigError>([&] { (void)tokenizer.encode("fox"); }),
               {"some/tokenizer.json:.post_processor.processors[1] needs text A"});
}

TEST(AddedTokens, OfEmptyContentAreNotLookedFor) {
  const auto tokenizer =
      testing::open(word_level_with("added_tokens", {{{"id", 3}, {"content", ""}}}));
  EXPECT_EQ(tokenizer.encode("fox dog").ids, (std::vector<std::uint32_t>{1, 2}));
}

TEST(AddedTokens, WithDamagedIdsAreRefused) {
  for (const Json& id : {Json(-1), Json(1.5), Json(4294967295U), Json(1e30), Json("3"), Json()})
    expect_parts(refusal_of(word_level_with("added_tokens", {{{"id", id}, {"content", "a"}}})),
                 {".added_tokens[0]"});
}

TEST(TruncationAndPadding, ThatAreDamagedAreRefusedByPlace) {
  expect_parts(refusal_of(word_level_with("truncation", {{"max_length", -1}})),
               {".truncation.max_length is -1"});
  expect_parts(refusal_of(word_level_with("truncation", {{"max_length", 1}, {"strategy", "Some"}})),
               {".truncation", "'Some'", "LongestFirst"});
  expect_parts(refusal_of(word_level_with("truncation", {{"max_length", 1}, {"direction", "Up"}})),
               {".truncation.direction", "'Up'", "Left"});
  expect_parts(refusal_of(word_level_with("padding", {{"strategy", "Some"}})), {".padding"});
}

Json padding_json(Json strategy) {
  return {
      {"strategy", std::move(strategy)}, {"pad_id", 0}, {"pad_type_id", 0}, {"pad_token", "[PAD]"}};
}

TEST(TruncationAndPadding, OutOfProportionAreRefusedWhenTheyAreUsed) {
  const auto tokenizer =
      testing::open(word_level_with("padding", padding_json({{"Fixed", 1'000'000'000'000}})));
  expect_parts(message_of<UsageError>([&] { (void)tokenizer.encode("fox"); }),
               {"1000000000000", "allowed are 16777216"});
}

Json precompiled(const std::string& bytes) {
  return {{"type", "Precompiled"}, {"precompiled_charsmap", detail::to_base64(bytes)}};
}

std::string word(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

TEST(Precompiled, ThatIsCutShortIsRefused) {
  for (const std::string& bytes : {std::string(), std::string("abc"), word(8) + word(0), word(3)})
    expect_parts(refusal_of(word_level_with("normalizer", precompiled(bytes))),
                 {".normalizer.precompiled_charsmap"});
}

TEST(Precompiled, ThatIsNoBase64IsRefused) {
  const Json json{{"type", "Precompiled"}, {"precompiled_charsmap", "%%%"}};
  expect_parts(refusal_of(word_level_with("normalizer", json)), {"is not base64"});
}

TEST(Precompiled, WhoseTextsAreNoUtf8IsRefused) {
  expect_parts(refusal_of(word_level_with("normalizer", precompiled(word(4) + word(0) + "\xf0"))),
               {"precompiled_charsmap", "UTF-8"});
}

TEST(Precompiled, WhoseDoubleArrayPointsOutsideIsRefusedWhenItIsUsed) {
  const std::string bytes = word(4) + word(0x7FFFFC00) + std::string("a\0", 2);
  const auto tokenizer = testing::open(word_level_with("normalizer", precompiled(bytes)));
  expect_parts(message_of<ConfigError>([&] { (void)tokenizer.encode("fox"); }),
               {"some/tokenizer.json:.normalizer.precompiled_charsmap is damaged"});
}

// The unit of 'f' has a leaf, which points into the texts.
std::string map_of_f(std::uint32_t text_at, const std::string& texts) {
  std::string units;
  for (std::uint32_t at = 0; at < 128; ++at) {
    std::uint32_t unit = 0;
    if (at == 'f') unit = 'f' | 1U << 8 | std::uint32_t{'f' ^ 1} << 10;
    if (at == 1) unit = text_at | 1U << 31;
    units += word(unit);
  }
  return word(static_cast<std::uint32_t>(units.size())) + units + texts;
}

TEST(Precompiled, ReplacesWhatItKnows) {
  const auto tokenizer =
      testing::open(word_level_with("normalizer", precompiled(map_of_f(0, std::string("d\0", 2)))));
  EXPECT_EQ(tokenizer.encode("fog foe").ids, (std::vector<std::uint32_t>{2, 0}));
  EXPECT_EQ(tokenizer.encode("fog").offsets[0], (Offsets{0, 3}));
}

TEST(Precompiled, ThatPointsBehindOrIntoACharacterIsRefusedWhenItIsUsed) {
  for (const std::uint32_t place : {1U, 3U, 1000U}) {
    const auto tokenizer = testing::open(
        word_level_with("normalizer", precompiled(map_of_f(place, std::string("\u00e9\0", 3)))));
    EXPECT_THROW((void)tokenizer.encode("fog"), ConfigError) << place;
  }
}

Json repeated(const char* key, const Json& one, std::size_t times) {
  return {{"type", "Sequence"}, {key, std::vector<Json>(times, one)}};
}

TEST(Replacements, ThatWouldFillTheMemoryAreRefused) {
  const Json doubles{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  auto tokenizer =
      testing::open(word_level_with("normalizer", repeated("normalizers", doubles, 60)));
  EXPECT_THROW((void)tokenizer.encode("a"), DataError);
  tokenizer = testing::open(word_level_with("decoder", repeated("decoders", doubles, 60)));
  EXPECT_THROW((void)tokenizer.join({"a"}), DataError);
  tokenizer = testing::open(
      word_level_with("pre_tokenizer", repeated("pretokenizers", {{"type", "ByteLevel"}}, 60)));
  EXPECT_THROW((void)tokenizer.encode("\u00e9"), DataError);
}

}  // namespace
}  // namespace accelerate
