#include "accelerate/transformers/models/config/pretrained_config.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::message_of;
using testing::TemporaryFolder;

PretrainedConfig parsed(const std::string& text) {
  return PretrainedConfig::from_json(text, "config.json");
}

TEST(PretrainedConfig, KeepsWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  testing::small_bert_config().save_pretrained(folder.path());
  const auto again = PretrainedConfig::from_pretrained(folder.path().string());
  EXPECT_EQ(again.to_json_string(), testing::small_bert_config().to_json_string());
  expect_has(again.to_json_string(), "a_key_of_tomorrow");
  EXPECT_EQ(again.model_type(), "bert");
}

TEST(PretrainedConfig, ReadsLabels) {
  const auto config = parsed(R"({"id2label": {"1": "b", "0": "a", "2": "c"}})");
  EXPECT_EQ(config.labels(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(parsed("{}").num_labels(), 2);
  EXPECT_EQ(parsed(R"({"num_labels": 4})").num_labels(), 4);
  expect_has(message_of<ConfigError>([] { (void)parsed(R"({"id2label": {"1": "b"}})").labels(); }),
             "0 to 0");
}

TEST(PretrainedConfig, CountsLabelsAsPythonWhereTheFileContradictsItself) {
  const auto config = parsed(R"({"num_labels": 3, "id2label": {"0": "a"}})");
  EXPECT_EQ(config.num_labels(), 3);
  EXPECT_EQ(config.labels(), (std::vector<std::string>{"LABEL_0", "LABEL_1", "LABEL_2"}));
  const auto named = parsed(R"({"num_labels": 1, "id2label": {"0": "a"}})");
  EXPECT_EQ(named.labels(), std::vector<std::string>{"a"});
}

TEST(PretrainedConfig, RenamesKeys) {
  auto config = parsed(R"({"alias": null, "key": 3})");
  config.rename("missing", "key");
  EXPECT_EQ(config.get<std::int64_t>("key"), 3);
  config.rename("alias", "key");
  EXPECT_EQ(config.json_of("key"), "null");
  EXPECT_EQ(config.keys(), std::vector<std::string>{"key"});
}

TEST(PretrainedConfig, ChangesLabelsAndTheWayBack) {
  auto config = parsed(R"({"id2label": {"0": "no", "1": "yes"}, "label2id": {"no": 0, "yes": 1}})");
  config.set_num_labels(2);  // As many: names stay.
  EXPECT_EQ(config.labels(), (std::vector<std::string>{"no", "yes"}));
  config.set_num_labels(3);
  EXPECT_EQ(config.labels(), (std::vector<std::string>{"LABEL_0", "LABEL_1", "LABEL_2"}));
  expect_has(config.to_json_string(), R"("LABEL_2": 2)");
  EXPECT_THROW(config.set_num_labels(0), UsageError);
}

TEST(PretrainedConfig, SaysWhatIsWrong) {
  expect_has(message_of<ConfigError>([] { (void)parsed("[1]"); }), "allowed is an object");
  expect_has(message_of<ConfigError>(
                 [] { (void)parsed(R"({"hidden_size": "x"})").get<std::int64_t>("hidden_size"); }),
             "'hidden_size'");
  expect_has(message_of<ConfigError>(
                 [] { (void)parsed(R"({"rope_scaling": 3})").section("rope_scaling"); }),
             "an object");
  const TemporaryFolder folder;
  expect_has(message_of<ConfigError>(
                 [&] { (void)PretrainedConfig::from_pretrained(folder.path().string()); }),
             "no config.json");
}

}  // namespace
}  // namespace accelerate
