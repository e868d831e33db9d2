// PartialState: what it reads from the environment, and its printed form.
#include "accelerate/state/partial_state.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <iostream>

#include "accelerate/base/process_identity.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

RANK_MAIN(states_share_one_group) {
  const PartialState first;
  const PartialState second;
  if (first.communicator() != second.communicator()) return 3;
  if (process_identity().rank != first.process_index()) return 4;
  if (process_identity().world_size != 2 || !process_identity().initialized) return 5;
  std::cout << to_string(first);
  first.wait_for_everyone();
  return 0;
}

RANK_MAIN(leave_the_group) {
  {
    const PartialState first;
    first.wait_for_everyone();
  }
  return 0;
}

TEST(PartialState, StatesOfAProcessShareOneGroup) {
  const auto ranks =
      testing::run_processes(2, "states_share_one_group", {.env = {{"ACCELERATE_USE_CPU", "1"}}});
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank.exit_code, 0) << rank.err;
    EXPECT_EQ(
        rank.out,
        "Distributed environment: MULTI_CPU  Backend: gloo\nNum processes: 2\nProcess index: " +
            std::to_string(rank.rank) + "\nLocal process index: " + std::to_string(rank.rank) +
            "\nDevice: cpu\n");
  }
}

TEST(PartialState, LeavingTheGroupIsQuietAndClean) {
  for (const auto& rank : testing::run_processes(2, "leave_the_group")) {
    EXPECT_EQ(rank.exit_code, 0);
    EXPECT_EQ(rank.err, "");
  }
}

TEST(PartialState, WithoutALauncherIsAGroupOfOne) {
  const PartialState state({.cpu = true});
  EXPECT_EQ(state.num_processes(), 1);
  EXPECT_EQ(state.distributed_type(), DistributedType::NO);
  EXPECT_TRUE(state.is_main_process() && state.is_last_process());
  EXPECT_EQ(to_string(state),
            "Distributed environment: NO\nNum processes: 1\nProcess index: 0\nLocal process index: "
            "0\nDevice: cpu\n");
}

}  // namespace
}  // namespace accelerate
