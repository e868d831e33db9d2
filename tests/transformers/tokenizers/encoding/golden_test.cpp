// Encodings against what Hugging Face `tokenizers` made: tests/reference/encodings_golden.py.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/transformers/tokenizers/json_support.h"

namespace accelerate {
namespace {

using testing::encodings_golden;
using testing::Json;

Json json_of(const std::vector<Offsets>& offsets) {
  Json list = Json::array();
  for (const auto& [begin, end] : offsets) list.push_back({begin, end});
  return list;
}

Json json_of(const Encoding& encoding, bool with_parts = true) {
  Json row{{"ids", encoding.ids},
           {"types", encoding.type_ids},
           {"tokens", encoding.tokens},
           {"offsets", json_of(encoding.offsets)},
           {"words", encoding.words},
           {"special", encoding.special_tokens_mask},
           {"attention", encoding.attention_mask}};
  if (with_parts) row["overflowing"] = Json::array();
  for (const Encoding& part : encoding.overflowing)
    row["overflowing"].push_back(json_of(part, false));
  return row;
}

// What truncation changes.
Json cut_of(const Encoding& encoding) {
  Json row{{"ids", encoding.ids},
           {"types", encoding.type_ids},
           {"special", encoding.special_tokens_mask},
           {"overflowing", Json::array()}};
  for (const Encoding& part : encoding.overflowing) row["overflowing"].push_back(part.ids);
  return row;
}

struct Input {
  explicit Input(const Json& row) : text(row["text"].get<std::string>()) {
    if (row.contains("pair") && row["pair"].is_string()) pair = row["pair"].get<std::string>();
  }
  [[nodiscard]] TextInput input() const {
    return {text, pair ? std::optional<std::string_view>(*pair) : std::nullopt};
  }
  std::string text;
  std::optional<std::string> pair;
};

Side side_of(const Json& row) {
  return row["direction"] == "left" ? Side::left : Side::right;
}

std::size_t count_or_zero(const Json& value) {
  return value.is_null() ? 0 : value.get<std::size_t>();
}

TruncationOptions truncation_of(const Json& row) {
  using enum TruncationStrategy;
  const std::string name = row["strategy"];
  return {.max_length = row["max_length"],
          .stride = row["stride"],
          .strategy = name == "only_first"    ? only_first
                      : name == "only_second" ? only_second
                                              : longest_first,
          .side = side_of(row)};
}

PaddingOptions padding_of(const Json& row) {
  return {.length = count_or_zero(row["length"]),
          .multiple_of = count_or_zero(row["pad_to_multiple_of"]),
          .side = side_of(row),
          .id = row["pad_id"],
          .type_id = row["pad_type_id"],
          .token = row["pad_token"]};
}

AddedToken added(const char* content, bool special = false) {
  return {.content = content, .special = special, .normalized = !special};
}

// As encodings_golden.py adds them.
std::vector<AddedToken> added_tokens() {
  std::vector<AddedToken> tokens{added("<left>"), added("<right>"), added("fo"),
                                 added("CAFÉ"),   added("DOG"),     added("<end>", true)};
  tokens[0].lstrip = tokens[1].rstrip = tokens[2].single_word = true;
  tokens[4].normalized = false;
  return tokens;
}

class EncodingGolden : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] static const Json& golden() { return encodings_golden()["tokenizers"][GetParam()]; }
  Tokenizer tokenizer_ = testing::open(golden()["json"]);
};

TEST_P(EncodingGolden, TextsAndPairsAreEncodedAsInPython) {
  for (const Json& row : golden()["encodings"]) {
    const Input input(row);
    const EncodeOptions options{.add_special_tokens = row.value("special", true)};
    EXPECT_EQ(json_of(tokenizer_.encode(input.input(), options)), row["want"]) << input.text;
  }
}

TEST_P(EncodingGolden, OffsetsInBytesAreThoseOfPythonsCodePoints) {
  for (const Json& row : golden()["encodings"]) {
    if (!row.contains("bytes")) continue;
    const std::string text = row["text"];
    const auto encoding = tokenizer_.encode(text, {.offsets_in_bytes = true});
    EXPECT_EQ(json_of(encoding.offsets), row["bytes"]) << text;
  }
}

TEST_P(EncodingGolden, IdsAreDecodedAsInPython) {
  for (const Json& row : golden()["encodings"]) {
    if (!row.contains("decoded")) continue;
    const auto ids = row["want"]["ids"].get<std::vector<std::uint32_t>>();
    EXPECT_EQ(Json(tokenizer_.decode(ids)), row["decoded"][0]) << row["text"];
    EXPECT_EQ(Json(tokenizer_.decode(ids, false)), row["decoded"][1]) << row["text"];
  }
}

TEST_P(EncodingGolden, AddedTokensAreFoundAndDecodedAsInPython) {
  const Json& want = golden()["additions"];
  // Python counts tokens that the vocabulary had, too.
  const std::size_t before = tokenizer_.vocab_size();
  const std::size_t count = tokenizer_.add_tokens(added_tokens());
  EXPECT_EQ(Json(before + count), want["size"]);
  EXPECT_EQ(Json(tokenizer_.vocab_size()), want["size"]);
  for (const Json& row : want["rows"]) {
    const Encoding encoding = tokenizer_.encode(row["text"].get<std::string>());
    EXPECT_EQ(json_of(encoding), row["want"]) << row["text"];
    EXPECT_EQ(Json(tokenizer_.decode(encoding.ids)), row["decoded"]) << row["text"];
  }
}

TEST_P(EncodingGolden, AFileWrittenAgainGivesEqualEncodings) {
  tokenizer_.add_tokens(added_tokens());
  const auto again = Tokenizer::from_text(tokenizer_.to_text());
  for (const Json& row : golden()["additions"]["rows"]) {
    const std::string text = row["text"];
    EXPECT_EQ(json_of(again.encode(text)), row["want"]) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, EncodingGolden,
                         ::testing::Values("bert", "byte_level", "unigram", "byte_fallback",
                                           "word_level"),
                         [](const auto& kind) { return std::string(kind.param); });

// Python's Rust part panics here.
TEST(AddedTokens, AreNotFoundInWhiteSpaceThatTheTokenBeforeTook) {
  const AddedToken left = {.content = "<a>", .rstrip = true, .normalized = false};
  const AddedToken white = {.content = "  ", .lstrip = true, .normalized = false};
  auto one = testing::open(testing::word_level_json());
  auto both = testing::open(testing::word_level_json());
  one.add_tokens({left});
  both.add_tokens({left, white});
  EXPECT_EQ(json_of(both.encode("fox<a>    fox")), json_of(one.encode("fox<a>    fox")));
}

class CuttingGolden : public EncodingGolden {};

TEST_P(CuttingGolden, TruncationCutsAsInPythonOrIsRefusedAsThere) {
  for (const Json& row : golden()["truncations"]) {
    SCOPED_TRACE(row.dump().substr(0, 200));
    tokenizer_.set_truncation(truncation_of(row));
    if (row.contains("want")) {
      EXPECT_EQ(cut_of(tokenizer_.encode(Input(row).input())), row["want"]);
    } else {
      EXPECT_THROW((void)tokenizer_.encode(Input(row).input()), UsageError);
    }
  }
}

TEST_P(CuttingGolden, BatchesArePaddedAsInPython) {
  for (const Json& row : golden()["paddings"]) {
    const auto texts = row["texts"].get<std::vector<std::string>>();
    tokenizer_.set_padding(padding_of(row));
    const auto batch = tokenizer_.encode_batch(
        std::vector<TextInput>({TextInput{texts[0]}, TextInput{texts[1]}, TextInput{texts[2]}}));
    ASSERT_EQ(batch.size(), row["want"].size());
    for (std::size_t i = 0; i < batch.size(); ++i) EXPECT_EQ(json_of(batch[i]), row["want"][i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, CuttingGolden, ::testing::Values("bert", "unigram"),
                         [](const auto& kind) { return std::string(kind.param); });

// Where a text begins, and which white space belongs to a token, for many short texts.
class PlacedGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(PlacedGolden, IdsAndOffsetsAreThoseOfPython) {
  for (const Json& kind : encodings_golden()["placed"][GetParam()]) {
    const Tokenizer tokenizer = testing::open(kind["json"]);
    for (const Json& row : kind["rows"]) {
      const Encoding encoding = tokenizer.encode(row[0].get<std::string>());
      EXPECT_EQ(Json({encoding.ids, json_of(encoding.offsets)}), Json({row[1], row[2]}))
          << row[0] << " by " << kind["json"]["normalizer"];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, PlacedGolden, ::testing::Values("beginnings", "white_tokens"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace accelerate
