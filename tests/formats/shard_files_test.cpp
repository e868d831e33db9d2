// Names of shards, and how parts and whole tensors are dealt to files.
#include "accelerate/formats/shards/shard_files.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "accelerate/base/error.h"
#include "accelerate/formats/shards/sharding_info.h"

namespace accelerate {
namespace {

TEST(ShardFiles, AreCalledAsPyTorchCallsThem) {
  EXPECT_EQ((ShardFileName{"model", 2, 1, 1}).text(),
            "shard-00002-model-00001-of-00001.safetensors");
  for (const char* stem : {"model", "model_1", "random_states_0", "a-b", "model-00001-of-00002"}) {
    const auto parsed = ShardFileName::parse(ShardFileName{stem, 12, 3, 123456}.text());
    ASSERT_TRUE(parsed) << stem;
    EXPECT_EQ(parsed->stem, stem);
    EXPECT_EQ(parsed->writer, 12U);
    EXPECT_EQ(parsed->number, 3U);
    EXPECT_EQ(parsed->count, 123456U);
  }
}

TEST(ShardFiles, OtherNamesAreNone) {
  for (const char* name :
       {"", "shard-", "model.safetensors", "model-00001-of-00002.safetensors",
        "shard-1-model-00001-of-00001.safetensors", "shard-00001-model-00001-of-00001.bin",
        "shard-00001--00001-of-00001.safetensors", "shard-00000-model-00001-of-00001.safetensors",
        "shard-00001-model-00002-of-00001.safetensors", "shard-00001-00001-of-00001.safetensors",
        "shard-00001-model-00001-of-99999999999999999999.safetensors",
        "shard--0001-model-00001-of-00001.safetensors", "shard-.safetensors"})
    EXPECT_FALSE(ShardFileName::parse(name)) << name;
}

TEST(ShardFiles, ARankWithoutPartsWritesNoFile) {
  EXPECT_TRUE(plan_shard_files("model", 3, {}).empty());
  const TensorSpec a{"a", DType::f32, {4, 4}}, none{"none", DType::f32, {0, 4}};
  EXPECT_TRUE(plan_shard_files("model", 3, {{a, {{4, 0}, {0, 4}}}}).empty());
  EXPECT_EQ(plan_shard_files("model", 3, {{none, whole_tile({0, 4})}}).size(), 1U);
}

TEST(ShardFiles, SeveralPartsOfATensorGoToSeveralFiles) {
  const TensorSpec a{"a", DType::f32, {4, 4}}, b{"b", DType::u8, {3}};
  const auto shards = plan_shard_files(
      "model", 1,
      {{a, {{0, 2}, {1, 2}}}, {a, {{1, 0}, {2, 4}}}, {b, {{1}, {2}}}, {a, {{3, 0}, {1, 1}}}});
  ASSERT_EQ(shards.size(), 3U);
  EXPECT_EQ(shards[0].file_name, "shard-00002-model-00001-of-00003.safetensors");
  EXPECT_EQ(shards[0].parts, (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(shards[1].parts, (std::vector<std::size_t>{1}));
  EXPECT_EQ(shards[2].parts, (std::vector<std::size_t>{3}));
  EXPECT_EQ(shards[0].specs[0].shape, (std::vector<std::int64_t>{1, 2}));
  const auto info = sharding_info_of(shards[0].metadata);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->offsets.at("a"), (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(info->global_shapes.at("b"), (std::vector<std::int64_t>{3}));
}

TEST(ShardFiles, APartOutsideItsTensorIsAMisuse) {
  const TensorSpec a{"a", DType::f32, {4, 4}};
  const TensorTile bad[] = {
      {{3, 0}, {2, 4}}, {{-1, 0}, {2, 4}}, {{0}, {4}}, {{0, 0}, {4, INT64_MAX}}, {{5, 0}, {0, 4}}};
  for (const auto& tile : bad)
    EXPECT_THROW((void)plan_shard_files("model", 0, {{a, tile}}), UsageError);
}

// --- dealing ------------------------------------------------------------------------------------

std::uint64_t bytes_of_parts(const std::vector<TensorPart>& parts) {
  std::uint64_t sum = 0;
  for (const auto& part : parts) sum += bytes_of(part.dtype, part.tile.sizes).value();
  return sum;
}

// That every tensor is covered once, by parts that are rows.
void expect_complete(const std::vector<TensorSpec>& tensors,
                     const std::vector<std::vector<TensorPart>>& dealt) {
  std::map<std::string, std::vector<TensorTile>> tiles;
  for (const auto& rank : dealt)
    for (const auto& part : rank) tiles[part.name].push_back(part.tile);
  for (const auto& tensor : tensors) {
    ASSERT_TRUE(tiles.contains(tensor.name));
    EXPECT_EQ(overlapping_tiles(tiles[tensor.name]), std::nullopt);
    EXPECT_EQ(uncovered_box(tensor.shape, tiles[tensor.name]), std::nullopt);
  }
}

TEST(DealToRanks, GivesEveryRankItsShareOfTheBytes) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<TensorSpec> tensors;
    std::uint64_t total = 0, largest_row = 0;
    for (int i = 0; i < 20; ++i) {
      TensorSpec spec{
          std::to_string(i),
          DType::f32,
          {static_cast<std::int64_t>(random() % 50), static_cast<std::int64_t>(random() % 30)}};
      if (i % 5 == 4) spec.shape = {};
      if (i % 7 == 6) spec.shape.insert(spec.shape.begin(), 1);
      total += bytes_of(spec.dtype, spec.shape).value();
      largest_row = std::max<std::uint64_t>(largest_row, 4 * 30);
      tensors.push_back(spec);
    }
    const std::size_t ranks = 1 + random() % 5;
    const auto dealt = deal_to_ranks(tensors, ranks, 64);
    ASSERT_EQ(dealt.size(), ranks);
    expect_complete(tensors, dealt);
    for (const auto& rank : dealt) {
      const auto share = static_cast<double>(bytes_of_parts(rank));
      EXPECT_NEAR(share, static_cast<double>(total) / static_cast<double>(ranks),
                  static_cast<double>(largest_row + 64));
    }
  }
}

TEST(DealToRanks, KeepsSmallTensorsWholeAndSpreadsThem) {
  std::vector<TensorSpec> tensors;
  for (int i = 0; i < 12; ++i) tensors.push_back({std::to_string(i), DType::f32, {8, 8}});
  const auto dealt = deal_to_ranks(tensors, 4);
  for (const auto& rank : dealt) EXPECT_EQ(rank.size(), 3U);
  expect_complete(tensors, dealt);
}

TEST(DealToRanks, NothingToDealIsNothingForEachRank) {
  for (const auto& rank : deal_to_ranks({}, 3)) EXPECT_TRUE(rank.empty());
  const std::vector<TensorSpec> empties = {{"a", DType::f32, {0, 4}}, {"b", DType::f32, {0}}};
  expect_complete(empties, deal_to_ranks(empties, 3));
}

TEST(DealToRanks, RefusesSizesThatOverflow) {
  EXPECT_THROW((void)deal_to_ranks({{"a", DType::f32, {INT64_MAX, 4}}}, 2), UsageError);
  EXPECT_THROW(
      (void)deal_to_ranks(
          {{"a", DType::u8, {INT64_MAX}}, {"b", DType::u8, {INT64_MAX}}, {"c", DType::u8, {2}}}, 2),
      UsageError);
}

}  // namespace
}  // namespace accelerate
