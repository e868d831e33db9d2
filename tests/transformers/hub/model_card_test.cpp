#include "accelerate/transformers/hub/model_card.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/formats/documents/yaml.h"
#include "tests/support/errors.h"
#include "tests/transformers/hub/hub_support.h"

namespace accelerate {
namespace {

using testing::message_of;

EvalResult accuracy(double value) {
  return {.task_type = "text-classification",
          .dataset_type = "nyu-mll/glue",
          .dataset_name = "GLUE",
          .metric_type = "accuracy",
          .metric_value = value};
}

ModelCard card_with(std::vector<EvalResult> results) {
  ModelCard card;
  card.model_name = "mine";
  card.eval_results = std::move(results);
  return card;
}

// The metadata of `card`, read back.
Node metadata_of(const ModelCard& card) {
  const std::string readme = write_model_card(card);
  EXPECT_TRUE(readme.starts_with("---\n"));
  const auto end = readme.find("\n---\n");
  return read_yaml(readme.substr(4, end - 3), "README.md");
}

std::string fault_of(const ModelCard& card) {
  return message_of<ConfigError>([&] { (void)write_model_card(card); });
}

TEST(ModelCard, WritesMetadataThenText) {
  ModelCard card;
  card.license = "mit";
  card.languages = {"en", "no"};
  card.base_models = {"org/base"};
  card.tags = {"b", "a", "b"};
  card.text = "\n# Mine\n";
  EXPECT_EQ(
      write_model_card(card),
      "---\nbase_model: org/base\nlanguage:\n- en\n- 'no'\nlicense: mit\ntags:\n- b\n- a\n---\n"
      "\n# Mine\n");
}

TEST(ModelCard, EmptyCardHasAnEmptyBlock) {
  EXPECT_EQ(write_model_card({}), "---\n{}\n---\n");
}

TEST(ModelCard, SeveralBaseModelsAreAList) {
  ModelCard card;
  card.base_models = {"a/x", "b/y"};
  EXPECT_EQ(metadata_of(card).find("base_model")->items.size(), 2U);
}

TEST(ModelCard, TextThatLooksLikeSomethingElseStaysText) {
  for (const char* text :
       {"no",  "1.0",  "null", "a: b", "#x",        "- x",  "2024-01-01", "1:30",
        "~",   " x",   "'",    "\"",   "é",         "漢字", "😀",         "\xe2\x80\xa8",
        "---", "a #b", "!x",   "=",    "a\n---\nb", "\x7f", "\ttab",      "\xef\xbb\xbf"}) {
    ModelCard card;
    card.model_name = text;
    const Node* name = nullptr;
    const Node metadata = metadata_of(card);
    ASSERT_NE(name = metadata.find("model_name"), nullptr) << text;
    EXPECT_EQ(name->text, text);
    EXPECT_TRUE(name->quoted || resolve_scalar(name->text) == ScalarKind::text) << text;
  }
}

TEST(ModelCard, ResultsOfOneDatasetShareAnEntry) {
  EvalResult f1 = accuracy(0.5);
  f1.metric_type = "f1";
  EvalResult other = accuracy(0.25);
  other.dataset_config = "mrpc";
  const Node metadata = metadata_of(card_with({accuracy(0.75), other, f1}));
  EXPECT_EQ(metadata.find("model_name"), nullptr);
  const Node& model = metadata.find("model-index")->items.at(0);
  EXPECT_EQ(model.find("name")->text, "mine");
  const auto& results = model.find("results")->items;
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].find("metrics")->items.size(), 2U);
  EXPECT_EQ(results[1].find("dataset")->find("config")->text, "mrpc");
}

TEST(ModelCard, ValuesKeepTheirType) {
  EvalResult count = accuracy(0);
  count.metric_value = 3;
  EvalResult text = accuracy(0);
  text.metric_value = "3";
  const std::string readme =
      write_model_card(card_with({accuracy(1e-5), accuracy(2), count, text}));
  for (const char* value : {"value: 1.0e-05\n", "value: 2.0\n", "value: 3\n", "value: '3'\n"}) {
    EXPECT_TRUE(contains(readme, value)) << value << readme;
  }
}

TEST(ModelCard, WritesValuesThatAreNoNumbersAsHuggingFaceDoes) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string readme =
      write_model_card(card_with({accuracy(nan), accuracy(infinity), accuracy(-infinity)}));
  for (const char* value : {"value: .nan\n", "value: .inf\n", "value: -.inf\n"}) {
    EXPECT_TRUE(contains(readme, value)) << value << readme;
  }
}

TEST(ModelCard, RefusesResultsWithoutAModelName) {
  ModelCard card = card_with({accuracy(1)});
  card.model_name.clear();
  EXPECT_TRUE(contains(fault_of(card), "the field model_name of the model card is empty"));
}

TEST(ModelCard, RefusesAResultThatLacksAField) {
  for (const auto field : {&EvalResult::task_type, &EvalResult::dataset_type,
                           &EvalResult::dataset_name, &EvalResult::metric_type}) {
    EvalResult result = accuracy(1);
    result.*field = "";
    EXPECT_TRUE(contains(fault_of(card_with({accuracy(1), result})), "eval_results[1]."));
  }
  EvalResult result = accuracy(1);
  result.metric_value = "";
  EXPECT_TRUE(contains(fault_of(card_with({result})), "eval_results[0].metric_value"));
}

TEST(ModelCard, RefusesEmptyEntriesAndControlCharacters) {
  for (const auto list : {&ModelCard::languages, &ModelCard::base_models, &ModelCard::datasets,
                          &ModelCard::metrics, &ModelCard::tags}) {
    ModelCard card;
    card.*list = {""};
    EXPECT_TRUE(contains(fault_of(card), "[0] of the model card is empty"));
    card.*list = {"x", "a\nb"};
    EXPECT_TRUE(contains(fault_of(card), "[1] of the model card must be one line, but 'a?b'"));
  }
}

TEST(ModelCard, RefusesWhatIsNotUtf8) {
  ModelCard card;
  card.text = "\xff";
  EXPECT_EQ(fault_of(card), "the field text of the model card is not UTF-8");
  card.text.clear();
  card.license_name = "\xc3";
  EXPECT_EQ(fault_of(card), "the field license_name of the model card is not UTF-8");
}

}  // namespace
}  // namespace accelerate
