#include <gtest/gtest.h>

#include <random>

#include "accelerate/base/error.h"
#include "accelerate/formats/documents/document_builder.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/documents/yaml.h"

namespace accelerate {
namespace {

std::string repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(YamlReader, KeepsTheTextOfScalarsAndWhetherTheyWereQuoted) {
  const Node node = read_yaml("a: no\nb: 'no'\nc: 1e3\nd: \"x\\ny\"\n", "f");
  EXPECT_EQ(node.find("a")->text, "no");
  EXPECT_FALSE(node.find("a")->quoted);
  EXPECT_TRUE(node.find("b")->quoted);
  EXPECT_EQ(node.find("c")->text, "1e3");
  EXPECT_EQ(node.find("d")->text, "x\ny");
}

TEST(YamlReader, KnowsLinesAndTheOrderOfKeys) {
  const Node node = read_yaml("# note\nb: 1\n\na:\n  - x\n  - y\n", "f");
  ASSERT_EQ(node.entries.size(), 2u);
  EXPECT_EQ(node.entries[0].key, "b");
  EXPECT_EQ(node.entries[0].line, 2);
  EXPECT_EQ(node.entries[1].line, 4);
  EXPECT_EQ(node.entries[1].value.items[1].line, 6);
}

TEST(YamlReader, ReadsNothingAsNull) {
  EXPECT_TRUE(read_yaml("", "f").is_null());
  EXPECT_TRUE(read_yaml("# only a note\n", "f").is_null());
  EXPECT_TRUE(read_yaml("a: ~", "f").find("a")->is_null());
  EXPECT_TRUE(read_yaml("a: null", "f").find("a")->is_null());
  EXPECT_TRUE(read_yaml("a:", "f").find("a")->is_null());
  EXPECT_EQ(read_yaml("a: '~'", "f").find("a")->text, "~");
}

TEST(YamlReader, ReadsClosedTextsAtTheVeryEnd) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_EQ(read_yaml(mark + "a: ''", "f").find("a")->text, "");
  EXPECT_EQ(read_yaml(mark + "a: |\n it '", "f").find("a")->text, "it '");
  EXPECT_EQ(read_yaml("a: it's'", "f").find("a")->text, "it's'");
  EXPECT_TRUE(read_yaml("a: |", "f").find("a")->quoted);
}

TEST(YamlReader, ReadsJsonInsideYaml) {
  const Node node = read_yaml("{\n  \"debug\": false,\n  \"n\": [1, \"x\"]\n}\n", "f");
  EXPECT_EQ(node.find("debug")->text, "false");
  EXPECT_EQ(node.find("n")->items[1].text, "x");
  EXPECT_EQ(node.entries[1].line, 3);
}

TEST(JsonReader, KnowsLinesAndKinds) {
  const Node node =
      read_json("{\n \"a\": \"1\",\n \"b\": 18446744073709551615,\n \"c\": 1e5\n}", "f");
  EXPECT_TRUE(node.find("a")->quoted);
  EXPECT_EQ(node.find("b")->text, "18446744073709551615");
  EXPECT_EQ(node.find("c")->text, "100000.0");
  EXPECT_EQ(node.entries[2].line, 4);
}

struct BadInput {
  const char* what;
  std::string text;
  const char* message;  ///< A part of it.
};

class BadYaml : public ::testing::TestWithParam<BadInput> {};
class BadJson : public ::testing::TestWithParam<BadInput> {};

template <typename Read>
void expect_refusal(const BadInput& input, Read read) {
  try {
    (void)read(input.text, "my file", DocumentLimits{});
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(input.message), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find("my file"), 0u) << error.what();
    EXPECT_LT(std::string(error.what()).size(), 400u);
  }
}

TEST_P(BadYaml, IsRefusedWithItsLine) {
  expect_refusal(GetParam(), read_yaml);
}
TEST_P(BadJson, IsRefusedWithItsLine) {
  expect_refusal(GetParam(), read_json);
}

std::string name_of_input(const ::testing::TestParamInfo<BadInput>& info) {
  return info.param.what;
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadYaml,
    ::testing::Values(
        BadInput{"EightByteRecursion", "&x\n- *x\n", "line 1: anchors"},
        BadInput{"Anchor", "a: 1\nb: &name x\n", "line 2: anchors"},
        BadInput{"AnchorOnKey", "&k a: 1\n", "anchors"},
        BadInput{"AnchorOnNull", "a: &k\nb: 1\n", "anchors"},
        BadInput{"Alias", "a: 1\nb: *a\n", "line 2"},
        BadInput{"AliasBomb", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n",
                 "anchors"},
        BadInput{"Tag", "a: !!python/object/apply:os.system ['true']\n", "line 1: the tag"},
        BadInput{"LocalTag", "a: 1\nb: !thing x\n", "line 2: the tag '!thing'"},
        BadInput{"TagOnMap", "a: !!map {b: c}\n", "the tag"},
        BadInput{"TagOnKey", "!!str a: 1\n", "the tag"},
        BadInput{"MergeKey", "a: 1\n<<: {b: 2}\n", "line 2: merge keys"},
        BadInput{"SecondDocument", "a: 1\n---\nb: 2\n", "line 2: a second document"},
        BadInput{"DuplicateKey", "a: 1\nb: 2\na: 3\n",
                 "line 3: the key 'a' appears twice; it was first set on line 1"},
        BadInput{"DuplicateNestedKey", "s:\n  a: 1\n  'a': 3\n", "line 3: the key 'a'"},
        BadInput{"DuplicateFlowKey", "{a: 1, a: 2}", "line 1: the key 'a'"},
        BadInput{"KeyIsList", "? [a, b]\n: c\n",
                 "a key must be a plain word; is a bracket left open"},
        BadInput{"KeyIsMap", "{a: b}: c\n", "a key must be a plain word; is a bracket left open"},
        BadInput{"Depth", repeat("[", 17) + repeat("]", 17), "nested deeper than 16"},
        BadInput{"DepthBomb", repeat("[", 1 << 19), "line 1: "},
        BadInput{"MapDepthBomb", repeat("{a: ", 1 << 17), "line 1: "},
        BadInput{"DashDepthBomb", repeat("- ", 1 << 19), "nested deeper than 16"},
        BadInput{"QuestionDepthBomb", repeat("? ", 1 << 19),
                 "a key must be a plain word; is a bracket left open"},
        BadInput{"TooLong", repeat("a: x\n#", 1 << 19), "at most 1.00 MB"},
        BadInput{"TwoMebibytes", repeat("a", 2 << 20), "2.00 MB"},
        BadInput{"Nul", std::string("a: b\nc: \0d\n", 11), "line 2: the control character 0x00"},
        BadInput{"Escape", "a: \x1b[31m\n", "line 1: the control character 0x1B"},
        BadInput{"Binary",
                 "\x7f"
                 "ELF\x02\x01",
                 "the control character 0x7F"},
        BadInput{"Latin1", "a: 1\nb: caf\xe9\n", "line 2: the file is not UTF-8"},
        BadInput{"Overlong", "a: \xc0\xaf\n", "not UTF-8"},
        BadInput{"Surrogate", "a: \xed\xa0\x80\n", "not UTF-8"},
        BadInput{"BeyondUnicode", "a: \xf4\x90\x80\x80\n", "not UTF-8"},
        BadInput{"TruncatedUtf8", "a: \xe2\x82", "not UTF-8"},
        BadInput{"Utf16",
                 std::string("\xff\xfe"
                             "a\0:\0",
                             6),
                 "not UTF-8"},
        BadInput{"UnclosedQuote", "a: 'x\nb: y\n", "this is not YAML"},
        BadInput{"QuoteAtTheEnd", "a: b\nc: '", "line 2: this is not YAML"},
        BadInput{"DoubleQuoteAtTheEnd", "\xef\xbb\xbfé: \"", "line 1: this is not YAML"},
        BadInput{"KeyIsQuoteAtTheEnd", "a: b\n'", "line 2: this is not YAML"},
        BadInput{"UnclosedList", "a: [1, 2\n", "this is not YAML"},
        BadInput{"UnclosedMap", "{a: 1", "is a bracket left open"},
        BadInput{"TabIndentation", "a:\n\tb: c\n", "this is not YAML"},
        BadInput{"BadIndentation", "a: b\n  c: d\n", "line 2: this is not YAML"},
        BadInput{"UnknownEscape", "a: \"\\q\"\n", "line 1: this is not YAML"},
        BadInput{"Percent", "a: %b\n", "this is not YAML"},
        BadInput{"AtSign", "a: @b\n", "this is not YAML"}),
    name_of_input);

INSTANTIATE_TEST_SUITE_P(
    Table, BadJson,
    ::testing::Values(BadInput{"Truncated", "{\n\"a\": ", "line 2: this is not JSON"},
                      BadInput{"TrailingComma", "{\n\"a\": 1,\n}", "line 3: this is not JSON"},
                      BadInput{"TwoValues", "{}\n{}", "line 2: this is not JSON"},
                      BadInput{"SingleQuotes", "{'a': 1}", "this is not JSON"},
                      BadInput{"Nan", "{\"a\": NaN}", "this is not JSON"},
                      BadInput{"DuplicateKey", "{\"a\": 1,\n\"a\": 2}",
                               "line 2: the key 'a' appears twice"},
                      BadInput{"DepthBomb", repeat("[", 1 << 19), "nested deeper than 16"},
                      BadInput{"ObjectBomb", repeat("{\"a\":", 1 << 17), "nested deeper than 16"},
                      BadInput{"TooLong", repeat(" ", 1 << 20) + "1", "at most 1.00 MB"},
                      BadInput{"Nul", std::string("{\"a\": \0}", 8), "control character 0x00"},
                      BadInput{"Latin1", "{\"a\": \"\xe9\"}", "not UTF-8"},
                      BadInput{"NumberOverflow", "[\n1e999]",
                               "line 2: the number '1e999' is too large; allowed are numbers"},
                      BadInput{"NumberUnderflow", "[-1e999]", "the number '-1e999' is too large"},
                      BadInput{"LoneSurrogate", "[\"\\ud800\"]", "this is not JSON"}),
    name_of_input);

TEST(YamlReader, AcceptsDepthSixteenAndAMebibyte) {
  EXPECT_TRUE(read_yaml(repeat("[", 16) + repeat("]", 16), "f").is_sequence());
  const std::string value(DocumentLimits{}.max_bytes - 3, 'x');
  EXPECT_EQ(read_yaml("a: " + value, "f").find("a")->text, value);
}

// Quadratic work would run into the test's timeout.
TEST(YamlReader, ReadsAHundredThousandKeys) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text.append("k").append(std::to_string(i)).append(":\n");
  EXPECT_EQ(read_yaml(text, "f").entries.size(), 100'000u);
}

// Every outcome is a tree or a ConfigError; sanitizers watch the rest.
template <typename Read>
int accepted_mutations(std::string seed_text, Read read) {
  const std::string soup = "{}[]:,-?|>&*!%@`'\"\\#\n\t ~<=ax0\xe9\x01";
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = seed_text;
    for (int edits = 1 + static_cast<int>(random() % 6); edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = soup[random() % soup.size()];
          break;
        case 1:
          text.insert(text.begin() + static_cast<long>(at), soup[random() % soup.size()]);
          break;
        case 2:
          text.erase(at, 1 + random() % 4);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
          break;
      }
      if (text.empty()) text = "a";
    }
    try {
      (void)read(text, "mutation", DocumentLimits{});
      ++accepted;
    } catch (const ConfigError&) {
    }
  }
  return accepted;
}

TEST(YamlReader, SurvivesMutations) {
  const std::string text =
      "a: [1, {b: c}]\ns:\n  - 'x y'\n  - \"z\\n\"\nt: |\n  long\n  text\nu: >-\n  fold\n? k\n: "
      "v\n";
  const int accepted = accepted_mutations(text, read_yaml);
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 2900);
}

TEST(JsonReader, SurvivesMutations) {
  const int accepted =
      accepted_mutations(R"({"a": [1, 2.5, true, null], "b": {"c": "d\né"}})", read_json);
  EXPECT_GT(accepted, 50);
  EXPECT_LT(accepted, 2900);
}

}  // namespace
}  // namespace accelerate
