// A rank that is lost, late or gives up on one host is an error that names it on all of them.
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/types.h>

#include <barrier>
#include <iostream>
#include <latch>

#include "accelerate/base/error.h"
#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/comm/hierarchical_communicator.h"
#include "accelerate/comm/rendezvous.h"
#include "tests/support/errors.h"
#include "tests/support/hosts.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using testing::message_of;
using testing::run_hosts;

const std::vector<int> kTwoHosts = {0, 0, 1, 1};

void expect_part(const std::string& text, const char* part) {
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text);
}

void all_reduce(Communicator& comm, std::int64_t size = 4) {
  at::Tensor tensor = torch::ones({size});
  comm.all_reduce(tensor, ReduceOp::sum).wait();
}

TEST(HierarchyFailures, ARankThatGivesUpIsNamedOnEveryHost) {
  run_hosts(kTwoHosts, [](const auto& comm) {
    comm->barrier();
    if (comm->rank() == 3) return comm->abort("the disk is full");
    const auto text = message_of<CommError>([&] { all_reduce(*comm); });
    expect_part(text, "all_reduce of Float[4] failed");
    expect_part(text, "inside host 1 (its ranks count from 0 and are 2, 3 of all)");
    expect_part(text, "the disk is full");
  });
}

TEST(HierarchyFailures, AnExceptionReachesTheRanksOfOtherHosts) {
  std::vector<std::string> seen(4);
  EXPECT_THROW(run_hosts(kTwoHosts,
                         [&](const auto& comm) {
                           comm->barrier();
                           if (comm->rank() == 1) throw DataError("sample 17 is broken");
                           try {
                             comm->barrier();
                           } catch (const CommError& error) {
                             seen[static_cast<std::size_t>(comm->rank())] = describe(error);
                           }
                         }),
               DataError);
  for (const int rank : {0, 2, 3}) {
    expect_part(seen[static_cast<std::size_t>(rank)], "sample 17 is broken");
  }
}

// The time between hosts is half of that inside one: ranks must be less apart than that.
TEST(HierarchyFailures, ALateRankIsATimeoutThatNamesTheLevel) {
  std::latch over(3);
  run_hosts(kTwoHosts,
            [&over](const auto& comm) {
              comm->barrier();
              if (comm->rank() == 3) return over.wait();  // It has not left.
              const auto text = message_of<CommError>([&] { all_reduce(*comm); });
              over.count_down();
              expect_part(text, comm->rank() == 2 ? "inside host 1" : "between the hosts");
            },
            {.timeout = 6s});
}

TEST(HierarchyFailures, LaterWorkSaysWhyTheFirstFailed) {
  run_hosts(kTwoHosts, [](const auto& comm) {
    comm->barrier();
    if (comm->rank() == 0) return comm->abort("out of memory");
    at::Tensor a = torch::ones({4}), b = torch::ones({5});
    auto first = comm->all_reduce(a, ReduceOp::sum);
    auto second = comm->all_reduce(b, ReduceOp::sum);
    const auto text = message_of<CommError>([&] { second.wait(); });
    expect_part(text, "all_reduce of Float[4]");
    expect_part(text, "out of memory");
    EXPECT_THROW(first.wait(), CommError);
    EXPECT_THROW(first.wait(), CommError) << "a failed wait fails again";
    EXPECT_THROW(comm->barrier(), CommError);
  });
}

// Rank 1's peers wait for it while it stays alive, and never comes.
TEST(HierarchyFailures, DestructionWithWorkInFlightDoesNotWaitForTheTimeout) {
  std::barrier everyone_is_gone(4);
  const auto start = std::chrono::steady_clock::now();
  testing::run_ranks_shared(4,
                            [&](const auto& flat) {
                              auto comm =
                                  testing::hierarchy_over(flat, kTwoHosts, {.timeout = 60s});
                              comm->barrier();
                              at::Tensor tensor = torch::ones({4});
                              Work abandoned;
                              if (comm->rank() != 1)
                                abandoned = comm->all_reduce(tensor, ReduceOp::sum);
                              if (comm->rank() != 1) comm.reset();
                              everyone_is_gone.arrive_and_wait();
                              if (flat->rank() != 1) {
                                EXPECT_THROW(abandoned.wait(), CommError);
                              }
                            },
                            {.timeout = 60s});
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
}

TEST(HierarchyFailures, WorkThatPeersFinishSurvivesTheCommunicator) {
  testing::run_ranks_shared(4, [](const auto& flat) {
    auto comm = testing::hierarchy_over(flat, kTwoHosts);
    at::Tensor tensor = torch::ones({5000});
    auto work = comm->all_reduce(tensor, ReduceOp::sum);
    comm.reset();
    work.wait();
    EXPECT_EQ(tensor[4999].template item<double>(), 4.0);
  });
}

TEST(HierarchyFailures, AnAbortEndsThePartsUnlessTheyOutliveIt) {
  run_hosts(kTwoHosts, [](const auto& comm) {
    const auto across = comm->split({0, 1, 2}), within = comm->split({2, 3}),
               apart = comm->split({3, 2, 1, 0});
    apart->detach();
    apart->barrier();
    if (comm->rank() == 2) comm->abort("lost its GPU");
    if (comm->rank() < 2)
      expect_part(message_of<CommError>([&] { across->barrier(); }), "lost its GPU");
    if (comm->rank() == 3)
      expect_part(message_of<CommError>([&] { within->barrier(); }), "lost its GPU");
    apart->barrier();
  });
}

TEST(HierarchyFailures, AnAbortedGroupCanBeRenewed) {
  run_hosts(kTwoHosts, [](const auto& comm) {
    const auto meeting = comm->split({0, 1, 2, 3});
    meeting->detach();
    if (comm->rank() == 3) comm->abort("once");
    if (comm->rank() != 3) {
      EXPECT_THROW(all_reduce(*comm), CommError);
    }
    meeting->barrier();
    comm->renew();
    for (int i = 0; i < 3; ++i) all_reduce(*comm, 3000);
    comm->barrier();
  });
}

RANK_MAIN(lose_a_rank_of_another_host) {
  const auto comm = testing::hierarchy_over(rendezvous(rendezvous_options_from_env()), kTwoHosts);
  comm->barrier();
  if (comm->rank() == 3) raise(SIGKILL);
  std::cout << message_of<CommError>([&] {
    for (int i = 0; i < 1000; ++i) all_reduce(*comm, 5000);
  });
  return 0;
}

TEST(HierarchyFailures, AKilledRankIsNamedOnEveryHost) {
  const auto ranks = testing::run_processes(4, "lose_a_rank_of_another_host");
  EXPECT_EQ(ranks[3].exit_code, 128 + SIGKILL);
  for (const int rank : {0, 1, 2}) {
    const auto& result = ranks[static_cast<std::size_t>(rank)];
    EXPECT_EQ(result.exit_code, 0) << result.err;
    expect_part(result.out, "inside host 1 (its ranks count from 0 and are 2, 3 of all)");
  }
}

}  // namespace
}  // namespace accelerate
