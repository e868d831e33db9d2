// How many steps a training has, and which samples a batch.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "accelerate/transformers/trainer/data/batch_lists.h"
#include "accelerate/transformers/trainer/data/training_plan.h"
#include "tests/support/errors.h"

namespace accelerate::detail {
namespace {

using testing::message_of;

struct PlanRow {
  std::int64_t batches, accumulation;
  double epochs;
  std::int64_t max_steps;
  std::int64_t expected_steps, expected_epochs, expected_updates;
};

// By set_initial_training_values() of Transformers 5.23.
constexpr PlanRow kPlans[] = {
    {10, 1, 3, -1, 30, 3, 10}, {10, 3, 1, -1, 4, 1, 4},  {10, 4, 1.5, -1, 5, 2, 3},
    {3, 8, 2, -1, 2, 2, 1},    {7, 2, 0.1, -1, 1, 1, 4}, {10, 1, 3, 25, 25, 3, 10},
    {10, 3, 3, 4, 4, 1, 4},    {10, 3, 3, 5, 5, 2, 4},
};

TrainingPlan plan_of(const PlanRow& row) {
  TrainingArguments args;
  args.num_train_epochs = row.epochs;
  args.max_steps = row.max_steps;
  return plan_training(resolved(args), row.accumulation, {.batches = row.batches, .examples = 40});
}

TEST(TrainingPlan, CountsStepsAsTheOriginal) {
  for (const PlanRow& row : kPlans) {
    const auto plan = plan_of(row);
    EXPECT_EQ(plan.max_steps, row.expected_steps) << row.batches << " by " << row.accumulation;
    EXPECT_EQ(plan.num_train_epochs, row.expected_epochs);
    EXPECT_EQ(plan.updates_per_epoch, row.expected_updates);
  }
}

TEST(TrainingPlan, GivesTheLastStepOfAnEpochWhatIsLeft) {
  const auto plan = plan_of({10, 4, 1, -1, 0, 0, 0});
  EXPECT_EQ(plan.epoch(0).batches_of(0), 4);
  EXPECT_EQ(plan.epoch(0).batches_of(2), 2);
  EXPECT_EQ(plan_of({8, 4, 1, -1, 0, 0, 0}).epoch(0).batches_of(1), 4);
}

TEST(TrainingPlan, NeedsStepsForAStreamAndABatchForADataset) {
  TrainingArguments args;
  EXPECT_NE(message_of<ConfigError>([&] {
              (void)plan_training(resolved(args), 1, {});
            }).find("max_steps"),
            std::string::npos);
  EXPECT_NE(message_of<ConfigError>([&] {
              (void)plan_training(resolved(args), 1, {.batches = 0});
            }).find("no batch"),
            std::string::npos);
  args.max_steps = 7;
  EXPECT_EQ(plan_training(resolved(args), 2, {}).max_steps, 7);
}

const std::vector<std::int64_t> kLengths{5, 1, 9, 3, 7, 2, 8, 4, 6, 10, 1, 1};

std::size_t distinct(const Indices& order) {
  return std::set<std::size_t>(order.begin(), order.end()).size();
}

TEST(BatchLists, LengthGroupedOrderIsAPermutationThatBeginsWithTheLongest) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto order = length_grouped(kLengths, 2, seed);
    EXPECT_EQ(distinct(order), kLengths.size());
    EXPECT_EQ(order.front(), 9U);
  }
  EXPECT_EQ(length_grouped(kLengths, 2, 4), length_grouped(kLengths, 2, 4));
  EXPECT_NE(length_grouped(kLengths, 2, 4), length_grouped(kLengths, 2, 5));
}

TEST(BatchLists, CutsByTokensWithPaddingCounted) {
  const auto batches = cut_by_tokens(given_order(kLengths.size()), kLengths, 20);
  std::size_t samples = 0;
  for (const auto& batch : batches) {
    std::int64_t longest = 0;
    for (const auto i : batch) longest = std::max(longest, kLengths[i]);
    EXPECT_LE(longest * static_cast<std::int64_t>(batch.size()), 20);
    samples += batch.size();
  }
  EXPECT_EQ(samples, kLengths.size());
  // A sample that is too long for any batch stands alone.
  EXPECT_EQ(cut_by_tokens({9, 1}, kLengths, 5), (BatchList{{9}, {1}}));
}

// The same batches as the original's: tests/transformers/trainer/loop_live.py.
TEST(BatchLists, BalancedStepsHaveEachSampleOnceAndNoEmptyBatch) {
  const BalancedStep step{.batch_size = 2, .ranks = 2, .accumulation = 1};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto batches = balanced_batches(random_order(kLengths.size(), seed), kLengths, step);
    ASSERT_EQ(batches.size(), 6U);
    Indices all;
    for (std::size_t i = 0; i < batches.size(); i += 2) {
      EXPECT_FALSE(batches[i].empty() || batches[i + 1].empty());
      EXPECT_EQ(batches[i].size() + batches[i + 1].size(), 4U);
      all.insert(all.end(), batches[i].begin(), batches[i].end());
      all.insert(all.end(), batches[i + 1].begin(), batches[i + 1].end());
    }
    EXPECT_EQ(distinct(all), kLengths.size());
  }
}

TEST(BatchLists, BalancedBatchesOfLongSamplesAreSmaller) {
  const std::vector<std::int64_t> lengths{90, 10, 10, 10, 10, 10, 10, 10};
  const BalancedStep step{.batch_size = 4, .ranks = 2, .accumulation = 1};
  EXPECT_EQ(balanced_batches(given_order(8), lengths, step),
            (BatchList{{0}, {1, 2, 3, 4, 5, 6, 7}}));
}

TEST(BatchLists, ABalancedLastStepIsFilledUpOrLeftOut) {
  BalancedStep step{.batch_size = 1, .ranks = 2, .accumulation = 2};
  const auto batches = balanced_batches(given_order(5), {5, 5, 5, 5, 9}, step);
  EXPECT_EQ(batches, (BatchList{{0}, {1}, {2}, {3}, {4}, {0}, {1}, {2}}));
  step.drop_last = true;
  EXPECT_EQ(balanced_batches(given_order(5), {5, 5, 5, 5, 9}, step).size(), 4U);
}

TEST(BatchLists, CutsByCountAndDropsTheLastIfAsked) {
  const auto order = given_order(5);
  EXPECT_EQ(cut_by_count(order, 2, false), (BatchList{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(cut_by_count(order, 2, true), (BatchList{{0, 1}, {2, 3}}));
}

}  // namespace
}  // namespace accelerate::detail
