#include "accelerate/data/batch_sampler_shard.h"

#include <gtest/gtest.h>

#include "accelerate/base/error.h"
#include "tests/data/reference.h"

namespace accelerate {
namespace {

using testing::Row;
using testing::text_of;

BatchList batches_of(const BatchSamplerShard& shard) {
  BatchList batches;
  for (std::size_t i = 0; i < shard.size(); ++i) batches.push_back(shard.batch(i));
  return batches;
}

struct Shards {
  std::vector<std::string> texts, counts;
};

Shards all_shards(const BatchSampler& batches, ShardOptions options) {
  Shards all;
  for (options.shard_index = 0; options.shard_index < options.num_shards; ++options.shard_index) {
    const BatchSamplerShard shard(batches, options);
    all.texts.push_back(text_of(batches_of(shard)));
    all.counts.push_back(std::to_string(shard.size()));
  }
  return all;
}

std::string refusal(const BatchSampler& batches, const ShardOptions& options) {
  try {
    BatchSamplerShard(batches, options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

// A row: size batch_size ranks split even drop | len of each rank | batches of each rank | hash.
TEST(BatchSamplerShard, EqualsPythonOverTheWholeGrid) {
  std::size_t rows = 0, refused = 0;
  for (const std::string& line : testing::reference_rows("batch_sampler_shard.txt")) {
    ++rows;
    const Row row(line);
    const BatchSampler batches(SampleOrder(row.number(0)), row.number(1), row.flag(5));
    const ShardOptions options{.num_shards = static_cast<int>(row.number(2)),
                               .split_batches = row.flag(3),
                               .even_batches = row.flag(4)};
    if (row.text(6) == "refused") {
      EXPECT_NE(refusal(batches, options), "accepted") << line;
      ++refused;
      continue;
    }
    const Shards shards = all_shards(batches, options);
    EXPECT_EQ(join(shards.counts, ","), row.text(7)) << line;
    EXPECT_EQ(testing::fnv1a(join(shards.texts, "|")), row.text(8)) << line;
    // Where upstream's len is not the number of batches it yields, ours is the latter.
    if (!options.split_batches || options.even_batches) {
      EXPECT_EQ(join(shards.counts, ","), row.text(6)) << line;
    }
  }
  EXPECT_EQ(rows, 6560U);
  EXPECT_GT(refused, 0U);
}

// A row: ranks even drop | len of each rank | [batches] | [batches of each rank].
TEST(BatchSamplerShard, EqualsPythonForBatchesOfAnySize) {
  std::size_t rows = 0;
  for (const std::string& line : testing::reference_rows("batch_sampler_shard_dynamic.txt")) {
    const Row row(line);
    const Shards shards =
        all_shards(BatchSampler(testing::parse_batches(row.bracketed(4)), row.flag(2)),
                   {.num_shards = static_cast<int>(row.number(0)), .even_batches = row.flag(1)});
    EXPECT_EQ(join(shards.counts, ","), row.text(3)) << line;
    EXPECT_EQ(join(shards.texts, "|"), row.bracketed(5)) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 256U);
}

TEST(BatchSamplerShard, LoopsBackToTheFirstSamplesWhenUneven) {
  const Shards shards = all_shards(BatchSampler(SampleOrder(7), 2), {.num_shards = 2});
  EXPECT_EQ(shards.texts, (std::vector<std::string>{"0,1;4,5", "2,3;6,0"}));
}

TEST(BatchSamplerShard, RepeatsATinyDatasetAsOftenAsNeeded) {
  const Shards shards = all_shards(BatchSampler(SampleOrder(1), 2), {.num_shards = 3});
  EXPECT_EQ(shards.texts, (std::vector<std::string>{"0,0", "0,0", "0,0"}));
}

TEST(BatchSamplerShard, CountsOnlyBatchesThatExistWhereUpstreamCountsOneTooMany) {
  const ShardOptions second{
      .num_shards = 2, .shard_index = 1, .split_batches = true, .even_batches = false};
  const BatchSamplerShard shard(BatchSampler(SampleOrder(5), 4), second);
  EXPECT_EQ(text_of(batches_of(shard)), "2,3");
}

TEST(BatchSamplerShard, SaysWhichBatchSizeCannotBeSplit) {
  const std::string message =
      refusal(BatchSampler(SampleOrder(9), 5), {.num_shards = 3, .split_batches = true});
  EXPECT_NE(message.find("batch_size (5)"), std::string::npos) << message;
  EXPECT_NE(message.find("number (3)"), std::string::npos) << message;
  EXPECT_NE(message.find("take 6"), std::string::npos) << message;
}

TEST(BatchSamplerShard, RefusesToSplitBatchesOfVaryingSize) {
  const std::string message =
      refusal(BatchSampler(BatchList{{0, 1}, {2}}), {.num_shards = 2, .split_batches = true});
  EXPECT_NE(message.find("batches of one size"), std::string::npos) << message;
}

TEST(BatchSamplerShard, RefusesShardsThatDoNotExist) {
  for (auto [shards, index] :
       {std::pair(0, 0), std::pair(2, 2), std::pair(2, -1), std::pair(-1, 0)}) {
    EXPECT_NE(
        refusal(BatchSampler(SampleOrder(9), 5), {.num_shards = shards, .shard_index = index}),
        "accepted");
  }
}

TEST(BatchSamplerShard, RefusesAStepThatCannotBeCounted) {
  const std::string message = refusal(
      BatchSampler(SampleOrder(9), std::numeric_limits<std::int64_t>::max()), {.num_shards = 3});
  EXPECT_NE(message.find("more samples a step than can be counted"), std::string::npos) << message;
}

}  // namespace
}  // namespace accelerate
