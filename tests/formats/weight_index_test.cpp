#include "accelerate/formats/weights/weight_index.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

const nlohmann::json& golden_index() {
  static const auto parsed = nlohmann::json::parse(testing::read_reference("weight_index.json"));
  return parsed;
}

std::uint64_t limit_of(const nlohmann::json& row) {
  const auto& limit = row.at("limit");
  return limit.is_string() ? parse_shard_size(limit.get<std::string>())
                           : limit.get<std::uint64_t>();
}

std::vector<WeightShard> plan_of(const nlohmann::json& row) {
  std::vector<ShardItem> items;
  for (const auto& tensor : row.at("tensors")) items.push_back({tensor.at(0), tensor.at(1)});
  return plan_shards(items, limit_of(row));
}

TEST(ShardPlan, DealsTensorsToTheFilesOfTheReference) {
  int rows = 0;
  for (const auto& row : golden_index().at("plans")) {
    std::vector<std::pair<std::string, std::vector<std::string>>> files;
    for (const WeightShard& shard : plan_of(row)) files.emplace_back(shard.file_name, shard.names);
    EXPECT_EQ(nlohmann::json(files), row.at("files")) << row.at("title");
    ++rows;
  }
  EXPECT_EQ(rows, 73);
}

TEST(ShardPlan, SizesAreTheReferencesAndPlainBytes) {
  int rows = 0;
  for (const auto& row : golden_index().at("sizes")) {
    const auto text = row.at(0).get<std::string>();
    ++rows;
    if (row.at(1).is_null() || row.at(1) == 0) {  // Shards of no bytes are nobody's wish.
      EXPECT_THROW((void)parse_shard_size(text), ConfigError) << text;
    } else {
      EXPECT_EQ(parse_shard_size(text), row.at(1).get<std::uint64_t>()) << text;
    }
  }
  EXPECT_EQ(rows, 22);
  EXPECT_EQ(parse_shard_size("500"), 500);
  for (const char* text : {"-1GB", "nan", "infGB", "1e30", "99999999TB", "5GB and more", "0", "0KB",
                           "0.5", "-0", "1e-4KB"}) {
    EXPECT_THROW((void)parse_shard_size(text), ConfigError) << text;
  }
}

TEST(ShardPlan, NothingIsOneFileAndANameTwiceIsRefused) {
  const auto shards = plan_shards({}, 10);
  ASSERT_EQ(shards.size(), 1);
  EXPECT_EQ(shards[0].file_name, "model.safetensors");
  EXPECT_THROW((void)plan_shards({{"w", 1}, {"w", 2}}, 10), UsageError);
}

TEST(ShardPlan, KnowsTheFilesThatEarlierSavesMayHaveLeft) {
  const ShardNames names;
  EXPECT_EQ(names.index_name(), "model.safetensors.index.json");
  for (const char* own : {"model.safetensors", "model-00001-of-00003.safetensors",
                          "model-100000-of-100001.safetensors", "model.safetensors.index.json"}) {
    EXPECT_TRUE(names.is_own(own)) << own;
  }
  for (const char* other :
       {"model_1.safetensors", "model-1-of-3.safetensors", "model-00001-of-00003.bin",
        "amodel-00001-of-00003.safetensors", "model-00001-of-0000x.safetensors", "model-",
        "model-.safetensors", "model-00001.safetensors", "optimizer.safetensors"}) {
    EXPECT_FALSE(names.is_own(other)) << other;
  }
  const ShardNames bin{.stem = "pytorch_model", .extension = ".bin"};
  EXPECT_EQ(bin.file_name(2, 3), "pytorch_model-00002-of-00003.bin");
  EXPECT_TRUE(bin.is_own("pytorch_model-00002-of-00003.bin"));
}

class WeightIndexes : public ::testing::Test {
 protected:
  [[nodiscard]] WeightIndex read(const std::string& text) const {
    return read_weight_index(folder_.write("model.safetensors.index.json", text));
  }
  [[nodiscard]] std::string refusal(const std::string& text) const {
    try {
      (void)read(text);
      return "";
    } catch (const CheckpointError& error) {
      return describe(error);
    }
  }

  testing::TemporaryFolder folder_;
};

TEST_F(WeightIndexes, TheTextIsTheReferencesAndReadsBack) {
  for (const auto& row : golden_index().at("plans")) {
    const WeightIndex index = index_of(plan_of(row));
    EXPECT_EQ(weight_index_text(index), row.at("index").get<std::string>()) << row.at("title");
    const WeightIndex again = read(row.at("index"));
    EXPECT_EQ(again.files, index.files);
    EXPECT_EQ(again.total_bytes, index.total_bytes);
  }
}

TEST_F(WeightIndexes, ForeignMetadataIsTakenAsItComes) {
  const std::string map = R"("weight_map":{"w":"b.safetensors","v":"a.bin"}})";
  const std::vector<std::pair<std::string, std::optional<std::uint64_t>>> rows = {
      {"{" + map, std::nullopt},
      {R"({"metadata":{},)" + map, std::nullopt},
      {R"({"metadata":{"total_size":13476839424.0,"total_parameters":7},)" + map, 13476839424},
      {R"({"metadata":{"total_size":9007199254740993},)" + map, 9007199254740993},
      {R"({"metadata":{"total_size":"12"},)" + map, std::nullopt},
      {R"({"metadata":{"total_size":-1},)" + map, std::nullopt},
      {R"({"metadata":null,)" + map, std::nullopt}};
  for (const auto& [text, expected] : rows) {
    const WeightIndex index = read(text);
    EXPECT_EQ(index.total_bytes, expected) << text;
    EXPECT_EQ(index.file_names(), (std::vector<std::string>{"a.bin", "b.safetensors"}));
  }
}

std::string naming(const std::string& file) {
  return R"({"weight_map":{"w":)" + nlohmann::json(file).dump() + "}}";
}

TEST_F(WeightIndexes, WhatIsHostileOrDamagedIsRefusedWithTheFileAndTheCause) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {naming("../secret.safetensors"),
       "tensor 'w' is '../secret.safetensors'; it begins with a p"},
      {naming(".."), "begins with a point"},
      {naming(".hidden"), "begins with a point"},
      {naming("/etc/passwd"), "is '/etc/passwd'; it is a path"},
      {naming("a/../b.safetensors"), "it is a path"},
      {naming("a\\b.safetensors"), "it is a path"},
      {naming("c:b.safetensors"), "it is a path"},
      {naming(""), "it is empty"},
      {naming(std::string("a\0b", 3)), "control characters"},
      {naming("a\nb"), "'a\\?b'; it holds control characters"},
      {naming(std::string(256, 'a')), "longer than 255 bytes"},
      {R"({"weight_map":{"w":"a","w":"b"}})", "'w'.*twice|appears|duplicate|already"},
      {R"({"weight_map":{"w":1}})", "tensor 'w' must be a string, found '1'"},
      {R"({"weight_map":{"w":null}})", "must be a string, found nothing"},
      {R"({"weight_map":{"w":["a"]}})", "must be a string, found a list"},
      {R"({"weight_map":[]})", "weight_map must be an object, found a list"},
      {R"({"weight_map":{}})", "weight_map is empty, so the index lists no tensor"},
      {R"({"weights":{}})", "the key weight_map is missing"},
      {"[]", "it must be a JSON object, found a list"},
      {"", "it must be a JSON object, found nothing"},
      {R"({"weight_map":{"w":"a")", "not JSON"},
      {R"({"weight_map":{")" + std::string(5000, 'n') + R"(":"a"}})", "5000 bytes, at most 4096"},
      {std::string(100, '[') + std::string(100, ']'), "deep|nest"},
      {"{\"weight_map\":{\"\xff\":\"a\"}}", "UTF-8"},
  };
  for (const auto& [text, pattern] : rows) {
    const std::string message = refusal(text);
    EXPECT_TRUE(message.starts_with("cannot read the index of weights '")) << text << message;
    EXPECT_TRUE(std::regex_search(message, std::regex(pattern))) << pattern << "\n" << message;
    EXPECT_LT(message.size(), 700);
  }
}

TEST_F(WeightIndexes, EveryTruncationIsRefused) {
  const std::string whole =
      weight_index_text({.total_bytes = 12, .files = {{"w", "a"}, {"v", "b"}}});
  for (std::size_t size = 0; size < whole.find_last_of('}'); ++size) {
    EXPECT_NE(refusal(whole.substr(0, size)), "") << "cut to " << size;
  }
  EXPECT_EQ(refusal(whole), "");
}

TEST_F(WeightIndexes, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  const auto fifo = folder_.path() / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const auto& path : {fifo, folder_.path(), folder_.path() / "none"}) {
    EXPECT_THROW((void)read_weight_index(path), CheckpointError);
  }
}

TEST_F(WeightIndexes, AnIndexThatNobodyCouldReadIsNotWritten) {
  EXPECT_THROW((void)weight_index_text({.files = {{"w", "../a"}}}), UsageError);
  EXPECT_THROW((void)weight_index_text({.files = {{"\xff", "a"}}}), UsageError);
  EXPECT_THROW((void)weight_index_text({.files = {}}), UsageError);
}

}  // namespace
}  // namespace accelerate
