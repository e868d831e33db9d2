// PartialState: what it reads from the environment, and its printed form.
#include "accelerate/comm/state/partial_state.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <iostream>
#include <thread>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/machine/cpu_affinity.h"
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

// One group ends on purpose, one by an exception that the program survives.
RANK_MAIN(end_and_begin_again) {
  for (int round = 0; round < 4; ++round) {
    try {
      const PartialState state;
      at::Tensor sum = torch::full({1}, state.process_index() + round);
      state.communicator()->all_reduce(sum, ReduceOp::sum).wait();
      std::cout << sum.item<int>() << " ";
      state.wait_for_everyone();
      if (round == 1) throw DataError("bad luck");
    } catch (const Error&) {  // A rank may learn from another that luck was bad.
      std::cout << "again ";
    }
  }
  return 0;
}

// What an inference program does by rank, without an Accelerator.
RANK_MAIN(work_by_rank) {
  const PartialState state;
  const std::vector<int> mine = state.split_between_processes(std::vector<int>{1, 2, 3});
  state.print("split", mine.size(), "of", 3, "on", state.num_processes());
  const auto chosen = state.on_process([](int x) { return 2 * x; }, 1)(21);
  if (chosen.has_value() != (state.process_index() == 1)) return 3;
  {
    const auto scope = state.main_process_first();
  }
  state.wait_for_everyone();
  return 0;
}

TEST(PartialState, SplitsPrintsAndChoosesByRank) {
  const auto ranks =
      testing::run_processes(2, "work_by_rank", {.env = {{"ACCELERATE_USE_CPU", "1"}}});
  for (const auto& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.err;
  EXPECT_EQ(ranks[0].out, "split 2 of 3 on 2\n");
  EXPECT_EQ(ranks[1].out, "");
}

TEST(PartialState, OneProcessBeginsAndEndsGroupsAsOftenAsItLikes) {
  for (const std::string backend : {"gloo", "shared_memory"}) {
    for (const auto& rank : testing::run_processes(
             2, "end_and_begin_again",
             {.env = {{"ACCELERATE_USE_CPU", "1"}, {"ACCELERATE_COMM", backend}}})) {
      EXPECT_EQ(rank.exit_code, 0) << backend << ": " << rank.err;
      EXPECT_EQ(rank.out, "1 3 again 5 7 ") << backend;
    }
  }
}

// Prints the CPUs that a thread started later may run on, and LibTorch's threads.
RANK_MAIN(keep_to_cores_as_asked) {
  const PartialState first;
  const PartialState second;  // divides nothing again
  std::thread([] { std::cout << cpu_list_text(allowed_cpus().value()); }).join();
  std::cout << " " << at::get_num_threads();
  second.wait_for_everyone();
  return 0;
}

class PartialStateCores : public ::testing::Test {
 protected:
  static std::vector<std::string> run(std::map<std::string, std::string> env) {
    env.insert({{"ACCELERATE_USE_CPU", "1"}, {"OMP_NUM_THREADS", ""}});
    std::vector<std::string> printed;
    for (const auto& rank : testing::run_processes(2, "keep_to_cores_as_asked", {.env = env})) {
      EXPECT_EQ(rank.exit_code, 0) << rank.err;
      printed.push_back(rank.out);
    }
    return printed;
  }

  const CpuList allowed_ = allowed_cpus().value();
  const std::vector<CoreShare> shares_ = divide_cores(cpu_cores({}, allowed_), 2);
};

TEST_F(PartialStateCores, AreDividedWhenTheVariableAsks) {
  if (physical_cores() < 2) GTEST_SKIP() << "needs two cores";
  const std::string threads = std::string(" ").append(std::to_string(fewest_cores(shares_)));
  EXPECT_EQ(run({{"ACCELERATE_CPU_AFFINITY", "1"}}),
            (std::vector{cpu_list_text(shares_[0].cpus) + threads,
                         cpu_list_text(shares_[1].cpus) + threads}));
}

TEST_F(PartialStateCores, AreLeftAloneOtherwise) {
  const std::string all = cpu_list_text(allowed_);
  const std::string threads =
      std::string(" ").append(std::to_string(std::max(1, physical_cores() / 2)));
  EXPECT_EQ(run({}), std::vector(2, all + threads));
  // The launcher did it, and says so.
  EXPECT_EQ(run({{"ACCELERATE_CPU_AFFINITY", "1"}, {"ACCELERATE_CPU_CORES", all}}),
            std::vector(2, all + threads));
}

TEST(PartialState, StatesOfAProcessShareOneGroup) {
  const auto ranks =
      testing::run_processes(2, "states_share_one_group", {.env = {{"ACCELERATE_USE_CPU", "1"}}});
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank.exit_code, 0) << rank.err;
    EXPECT_EQ(rank.out,
              "Distributed environment: MULTI_CPU  Backend: shared_memory\nNum processes: "
              "2\nProcess index: " +
                  std::to_string(rank.rank) +
                  "\nLocal process index: " + std::to_string(rank.rank) + "\nDevice: cpu\n");
  }
}

TEST(PartialState, LeavingTheGroupIsQuietAndClean) {
  // On a busy machine a rank that waits for the other says so.
  for (const auto& rank :
       testing::run_processes(2, "leave_the_group", {.env = {{"ACCELERATE_LOG_LEVEL", "error"}}})) {
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
