#include "accelerate/state/gradient_state.h"

#include <gtest/gtest.h>

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
}

}  // namespace
}  // namespace accelerate
