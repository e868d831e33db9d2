#include "accelerate/data/samplers.h"

#include <gtest/gtest.h>

#include "accelerate/base/error.h"
#include "tests/data/reference.h"

namespace accelerate {
namespace {

using testing::fnv1a;
using testing::text_of;

std::string text_of_order(const SampleOrder& order) {
  Indices indices;
  for (std::size_t i = 0; i < order.size(); ++i) indices.push_back(order[i]);
  return text_of(indices);
}

TEST(SeedableRandomSampler, EqualsPythonBitForBit) {
  std::size_t rows = 0;
  for (const std::string& line : testing::reference_rows("randperm.txt")) {
    const testing::Row row(line);
    SeedableRandomSampler sampler(row.number(0), std::stoull(row.text(1)));
    sampler.set_epoch(row.number(2));
    const std::string order = text_of_order(sampler.order());
    EXPECT_EQ(row.number(0) <= 10 ? order : fnv1a(order), row.text(3)) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 75U);
}

TEST(SeedableRandomSampler, GivesNothingForAnEmptyDataset) {
  EXPECT_EQ(SeedableRandomSampler(0, 42).order().size(), 0U);
}

TEST(SeedableRandomSampler, LeavesTheDefaultGeneratorAlone) {
  const auto before = at::globalContext().defaultGenerator(at::kCPU).get_state();
  static_cast<void>(SeedableRandomSampler(100, 7).order());
  EXPECT_TRUE(at::equal(before, at::globalContext().defaultGenerator(at::kCPU).get_state()));
}

TEST(SeedableRandomSampler, EpochAddsToTheSeed) {
  SeedableRandomSampler later(20, 40);
  later.set_epoch(2);
  EXPECT_EQ(text_of_order(later.order()), text_of_order(SeedableRandomSampler(20, 42).order()));
}

TEST(SequentialSampler, CountsUp) {
  EXPECT_EQ(text_of_order(SequentialSampler(4).order()), "0,1,2,3");
}

TEST(BatchSampler, KeepsASmallLastBatchUnlessDropped) {
  const BatchSampler kept(SampleOrder(5), 2);
  EXPECT_EQ(kept.size(), 3U);
  EXPECT_EQ(text_of(kept.batch(2)), "4");
  EXPECT_EQ(BatchSampler(SampleOrder(5), 2, true).size(), 2U);
}

TEST(BatchSampler, BatchesMayBeLargerThanTheDataset) {
  const BatchSampler batches(SampleOrder(3), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(batches.size(), 1U);
  EXPECT_EQ(text_of(batches.batch(0)), "0,1,2");
}

TEST(BatchSampler, RefusesBatchSizesBelowOne) {
  for (std::int64_t size : {0L, -1L, std::numeric_limits<std::int64_t>::min()}) {
    try {
      BatchSampler(SampleOrder(3), size);
      ADD_FAILURE() << "accepted " << size;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("batch_size is " + std::to_string(size)),
                std::string::npos);
    }
  }
}

TEST(BatchSampler, RefusesAnEmptyBatch) {
  EXPECT_THROW(BatchSampler(BatchList{{1}, {}}), DataError);
}

}  // namespace
}  // namespace accelerate
