#include "accelerate/comm/state/gradient_state.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace accelerate {
namespace {

TEST(GradientState, SynchronisesAndKnowsNoLoaderAtFirst) {
  const GradientState state;
  EXPECT_TRUE(state.sync_gradients);
  EXPECT_FALSE(state.in_dataloader());
  EXPECT_FALSE(state.end_of_dataloader());
  EXPECT_EQ(state.remainder(), -1);
}

TEST(GradientState, ReportsTheInnermostLoaderAsItIsNow) {
  GradientState state;
  LoaderProgress outer{.remainder = 3}, inner{.remainder = 5};
  state.push(&outer);
  state.push(&inner);
  inner.end_of_dataloader = true;
  EXPECT_TRUE(state.end_of_dataloader());
  EXPECT_EQ(state.remainder(), 5);
  state.remove(&inner);
  EXPECT_FALSE(state.end_of_dataloader());
  EXPECT_EQ(state.remainder(), 3);
  state.remove(&outer);
}

TEST(GradientState, LetsAnOuterLoaderLeaveFirst) {
  GradientState state;
  LoaderProgress outer, inner{.remainder = 5};
  state.push(&outer);
  state.push(&inner);
  state.remove(&outer);
  EXPECT_EQ(state.depth(), 1U);
  EXPECT_EQ(state.remainder(), 5);
  state.remove(&outer);  // Gone already.
  EXPECT_EQ(state.depth(), 1U);
  state.remove(&inner);
}

// As in Python, where all Accelerators have one state.
TEST(GradientState, KnowsTheLoaderThatTheThreadIteratesForAnotherState) {
  GradientState first, second;
  LoaderProgress loader{.end_of_dataloader = true, .remainder = 5}, own;
  first.push(&loader);
  EXPECT_TRUE(second.end_of_dataloader());
  EXPECT_EQ(second.remainder(), 5);
  EXPECT_FALSE(second.in_dataloader());
  std::thread([&] { EXPECT_FALSE(second.end_of_dataloader()); }).join();
  second.push(&own);
  EXPECT_FALSE(second.end_of_dataloader());
  second.remove(&own);
  first.remove(&loader);
  EXPECT_FALSE(second.end_of_dataloader());
}

// "step sync" of each of five batches, two epochs, two micro-batches a step, as upstream's.
std::string trace(bool sync_with_dataloader) {
  GradientState state;
  state.accumulation = {.num_steps = 2, .sync_with_dataloader = sync_with_dataloader};
  std::string text;
  for (int epoch = 0; epoch < 2; ++epoch) {
    LoaderProgress loader;
    state.push(&loader);
    for (int batch = 0; batch < 5; ++batch) {
      loader.end_of_dataloader = batch == 4;
      state.begin_micro_batch();
      text += std::to_string(state.step()) + (state.sync_gradients ? "T " : "F ");
    }
    state.remove(&loader);
  }
  return text;
}

TEST(GradientState, CountsMicroBatchesAsUpstreamDoes) {
  EXPECT_EQ(trace(true), "1F 2T 3F 4T 0T 1F 2T 3F 4T 0T ");
  EXPECT_EQ(trace(false), "1F 2T 3F 4T 5F 6T 7F 8T 9F 10T ");
}

TEST(GradientState, AMicroBatchThatFailedDoesNotCount) {
  GradientState state;
  state.accumulation.num_steps = 2;
  state.begin_micro_batch();
  state.begin_micro_batch();
  EXPECT_TRUE(state.sync_gradients);
  state.abandon_micro_batch();
  EXPECT_TRUE(state.micro_batch_failed);
  state.begin_micro_batch();
  EXPECT_FALSE(state.micro_batch_failed);
  EXPECT_EQ(state.step(), 2);
  EXPECT_TRUE(state.sync_gradients);
}

TEST(GradientState, AMicroBatchThatFailedInBackwardSpoilsTheGradientsUntilTheyAreDropped) {
  GradientState state;
  state.begin_micro_batch();
  state.begin_backward();
  state.abandon_micro_batch();
  state.begin_micro_batch();
  EXPECT_TRUE(state.gradients_spoilt);
  state.reset();
  EXPECT_FALSE(state.gradients_spoilt);
  EXPECT_EQ(state.step(), 0);
}

TEST(GradientState, AnExceptionAfterTheStepTakesNothingBack) {
  GradientState state;
  state.begin_micro_batch();
  state.begin_backward();
  state.drop_gradients();
  state.abandon_micro_batch();
  EXPECT_FALSE(state.micro_batch_failed);
  EXPECT_FALSE(state.gradients_spoilt);
  EXPECT_EQ(state.step(), 1);
}

TEST(GradientState, AWindowLastsUntilItsGradientsAreDueOrDropped) {
  GradientState state;
  state.accumulation.num_steps = 2;
  std::vector<std::int64_t> windows;
  const auto micro_batch = [&](bool fails = false) {
    state.begin_micro_batch();
    windows.push_back(state.window());
    if (fails) state.abandon_micro_batch();
  };
  micro_batch();
  micro_batch(/*fails=*/true);
  micro_batch();
  EXPECT_EQ(windows[0], windows[1]);
  EXPECT_EQ(windows[1], windows[2]);
  micro_batch();
  EXPECT_NE(windows[2], windows[3]) << "the one before was due";
  state.drop_gradients();
  EXPECT_NE(windows[3], state.window());
}

}  // namespace
}  // namespace accelerate
