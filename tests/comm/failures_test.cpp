// A rank that is lost, late or gives up is an error that names it, within the timeout.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/comm/communicator.h"
#include "accelerate/comm/operations.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using testing::message_of;
using testing::run_ranks;

// The signals that a thread of this process blocks, by the thread's name.
std::multimap<std::string, unsigned long long> blocked_signals() {
  std::multimap<std::string, unsigned long long> blocked;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name, line;
    std::ifstream status(task.path() / "status");
    while (std::getline(status, line)) {
      if (line.starts_with("Name:\t")) name = line.substr(6);
      if (line.starts_with("SigBlk:\t")) blocked.emplace(name, std::stoull(line.substr(8), {}, 16));
    }
  }
  return blocked;
}

TEST(CommFailures, AConnectionClosedByAPeerRaisesNoSignalThatWouldEndTheProcess) {
  const auto body = [](Communicator& comm) {
    constexpr auto kBit = 1ULL << (SIGPIPE - 1);
    comm.barrier();
    int of_gloo = 0;
    for (const auto& [name, blocked] : blocked_signals()) {
      if (name.find("gloo") == std::string::npos) continue;
      EXPECT_TRUE(blocked & kBit) << name;
      ++of_gloo;
    }
    EXPECT_GT(of_gloo, 0);
    sigset_t own;
    pthread_sigmask(SIG_BLOCK, nullptr, &own);
    EXPECT_FALSE(sigismember(&own, SIGPIPE)) << "the user's thread is as it was";
    comm.barrier();
  };
  run_ranks(2, body, {.engine = testing::Engine::gloo});
}

TEST(CommFailures, ALateRankIsATimeoutThatNamesTheOperation) {
  std::latch over(1);
  run_ranks(2,
            [&over](Communicator& comm) {
              if (comm.rank() == 1) return over.wait();  // It has not left.
              at::Tensor tensor = torch::ones({4});
              const auto text =
                  message_of<CommError>([&] { comm.all_reduce(tensor, ReduceOp::sum).wait(); });
              over.count_down();
              EXPECT_NE(text.find("all_reduce of Float[4]"), std::string::npos) << text;
              EXPECT_NE(text.find("rank 0 of 2"), std::string::npos) << text;
            },
            {.timeout = 3s});
}

TEST(CommFailures, ATimeoutOverGlooNamesTheRankThatIsLateByItsProcessAndNobodyElse) {
  std::latch over(2);
  run_ranks(3,
            [&over](Communicator& comm) {
              if (comm.rank() == 2) return over.wait();
              at::Tensor tensor = torch::ones({4});
              const auto text =
                  message_of<CommError>([&] { comm.all_reduce(tensor, ReduceOp::sum).wait(); });
              over.count_down();
              const std::string process = " (process " + std::to_string(getpid()) + ")";
              EXPECT_NE(text.find("It waits for rank 2" + process), std::string::npos) << text;
              EXPECT_EQ(text.find("waits for rank 0"), std::string::npos) << text;
              EXPECT_EQ(text.find("waits for rank 1"), std::string::npos) << text;
              EXPECT_EQ(text.find("crashed"), std::string::npos) << text;
            },
            {.timeout = 3s, .engine = testing::Engine::gloo});
}

TEST(CommFailures, AMessageThatDoesNotComeIsATimeoutThatNamesItsSenderByItsProcess) {
  std::latch over(1);
  run_ranks(2,
            [&over](Communicator& comm) {
              if (comm.rank() == 1) return over.wait();
              at::Tensor tensor = torch::ones({4});
              const auto text = message_of<CommError>([&] { comm.receive(tensor, 1, 7).wait(); });
              over.count_down();
              EXPECT_NE(text.find("receive from rank 1 on rank 0 of 2 was not finished within"),
                        std::string::npos)
                  << text;
              EXPECT_NE(text.find("waits for rank 1 (process " + std::to_string(getpid()) + ")"),
                        std::string::npos)
                  << text;
              EXPECT_EQ(text.find("crashed"), std::string::npos) << text;
            },
            {.timeout = 3s, .engine = testing::Engine::gloo});
}

TEST(CommFailures, ARankThatGivesUpTellsItsPeersWhy) {
  run_ranks(2,
            [](Communicator& comm) {
              if (comm.rank() == 1) {
                comm.abort("the dataset is empty");
                EXPECT_THROW(comm.barrier(), CommError);
                return;
              }
              const auto text = message_of<CommError>([&] { comm.barrier(); });
              EXPECT_NE(text.find("Rank 1 gave up: the dataset is empty"), std::string::npos)
                  << text;
            },
            {.timeout = 5s});
}

TEST(CommFailures, ARankThatGivesUpTellsTheGroupsThatWereSplitOffUnlessTheyOutliveIt) {
  run_ranks(2, [](Communicator& comm) {
    const auto part = comm.split({0, 1}), deeper = part->split({0, 1}), apart = comm.split({0, 1});
    apart->detach();
    if (comm.rank() == 1) comm.abort("out of memory");
    if (comm.rank() == 0) {
      for (auto* group : {part.get(), deeper.get()}) {
        const auto text = message_of<CommError>([&] { group->barrier(); });
        EXPECT_NE(text.find("Rank 1 gave up: out of memory"), std::string::npos) << text;
      }
    }
    apart->barrier();
  });
}

TEST(CommFailures, ARankThatLeavesCleanlyIsToldFromACrash) {
  run_ranks(2,
            [](Communicator& comm) {
              if (comm.rank() == 1) return;
              const auto text = message_of<CommError>([&] {
                for (int i = 0; i < 100; ++i) comm.barrier();
              });
              EXPECT_NE(text.find("Rank 1 had left the group with a clean exit"), std::string::npos)
                  << text;
            },
            {.timeout = 3s});
}

TEST(CommFailures, AnExceptionReachesTheOtherRanksWithItsReason) {
  std::string seen;
  EXPECT_THROW(run_ranks(2,
                         [&seen](Communicator& comm) {
                           if (comm.rank() == 1) throw DataError("sample 17 is broken");
                           try {
                             comm.barrier();
                           } catch (const CommError& error) {
                             seen = error.what();
                           }
                         },
                         {.timeout = 5s}),
               DataError);
  EXPECT_NE(seen.find("sample 17 is broken"), std::string::npos) << seen;
}

TEST(CommFailures, SplittingAGroupOffEndsWhenAMemberHasGivenUp) {
  run_ranks(2, [](Communicator& comm) {
    if (comm.rank() == 1) return comm.abort("lost its GPU");
    const auto text = message_of<CommError>([&] { (void)comm.split({0, 1}); });
    EXPECT_NE(text.find("ank 1 gave up: lost its GPU"), std::string::npos) << text;
  });
}

// One time in a hundred, and in ten on a busy machine, if nobody waited for it.
TEST(CommFailures, ARankThatLeavesAsSoonAsItHasJoinedBreaksNoConnectionThatOthersStillMake) {
  for (int round = 0; round < 100; ++round) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    std::vector<std::jthread> ranks;
    for (const int rank : {0, 1}) {
      ranks.emplace_back([rank, store] {
        EXPECT_NO_THROW(make_gloo_communicator(store, rank, 2, 60s)->abort("all refuse alike"));
      });
    }
  }
}

TEST(CommFailures, ARenewedGroupCanBeSplitWhereverRanksWereWhenItWasAborted) {
  run_ranks(2, [](Communicator& comm) {
    if (comm.rank() == 0) (void)comm.split({0});
    if (comm.rank() == 1) comm.abort("before it had split");
    EXPECT_THROW(comm.barrier(), CommError);
    EXPECT_EQ(comm.renewals(), 0);
    comm.renew();
    EXPECT_EQ(comm.renewals(), 1);
    comm.split({1, 0})->barrier();
  });
}

TEST(CommFailures, DestructionWithWorkInFlightDoesNotWaitForTheTimeout) {
  const auto start = std::chrono::steady_clock::now();
  run_ranks(2,
            [](Communicator& comm) {
              if (comm.rank() == 1) return;
              at::Tensor tensor = torch::ones({4});
              auto abandoned = comm.all_reduce(tensor, ReduceOp::sum);
              comm.abort("done here");
              EXPECT_THROW(abandoned.wait(), CommError);
              EXPECT_THROW(abandoned.wait(), CommError) << "a failed wait fails again";
            },
            {.timeout = 20s});
  EXPECT_LT(std::chrono::steady_clock::now() - start, 15s);
}

// Gloo cannot tell; shared memory compares all calls, those of nothing too.
TEST(CommFailures, AnEmptyTensorWhereAnotherRankHasNoneIsADisagreement) {
  run_ranks(2,
            [](Communicator& comm) {
              const auto text = message_of<CommError>([&] {
                for (int i = 0; i < 2; ++i) {
                  at::Tensor tensor = torch::ones({comm.rank() == 0 && i == 0 ? 0 : 5});
                  comm.all_reduce(tensor, ReduceOp::sum).wait();
                }
              });
              EXPECT_NE(text.find("of 0 elements of Float"), std::string::npos) << text;
              EXPECT_NE(text.find("of 5 elements of Float"), std::string::npos) << text;
            },
            {.engine = testing::Engine::shared_memory});
}

// Gloo's own threads would end the process when a message is larger than its buffer.
TEST(CommFailures, TensorsOfOtherSizesAreAnErrorOnEachRank) {
  struct Call {
    std::string name;
    int larger;  // A rank that sends.
    std::function<Work(Communicator&, at::Tensor)> begin;
  };
  const auto on_root = [](const Communicator& comm, const at::Tensor& mine) {
    return std::vector<at::Tensor>(comm.rank() == 0 ? 2 : 0, mine.clone());
  };
  const std::vector<Call> calls = {
      {"all_reduce", 0, [](auto& comm, auto mine) { return comm.all_reduce(mine, ReduceOp::sum); }},
      {"reduce", 1, [](auto& comm, auto mine) { return comm.reduce(mine, 0, ReduceOp::sum); }},
      {"broadcast", 0, [](auto& comm, auto mine) { return comm.broadcast(mine, 0); }},
      {"all_gather", 1,
       [](auto& comm, auto mine) { return comm.all_gather(at::cat({mine, mine}), mine); }},
      {"gather", 1,
       [&](auto& comm, auto mine) { return comm.gather(on_root(comm, mine), mine, 0); }},
      {"scatter", 0,
       [&](auto& comm, auto mine) { return comm.scatter(mine, on_root(comm, mine), 0); }},
      {"message", 0,
       [](auto& comm, auto mine) {
         return comm.rank() == 0 ? comm.send(mine, 1, 5) : comm.receive(mine, 0, 5);
       }},
      {"all_to_all", 1, [](auto& comm, auto mine) { return comm.all_to_all(mine.clone(), mine); }}};
  for (const Call& call : calls) {
    SCOPED_TRACE(call.name);
    const auto body = [&](Communicator& comm) {
      call.begin(comm, torch::ones({2})).wait();
      const auto text = message_of<CommError>([&] {
        call.begin(comm, torch::ones({comm.rank() == call.larger ? 4000 : 2})).wait();
        comm.barrier();  // A rank that only sends may be through.
      });
      EXPECT_NE(text.find("on rank " + std::to_string(comm.rank())), std::string::npos) << text;
    };
    run_ranks(2, body, {.timeout = 500ms, .engine = testing::Engine::gloo});
  }
}

TEST(CommFailures, GlooTakesTagsUpToALimit) {
  const auto body = [](Communicator& comm) {
    constexpr int kMost = 524'287;
    at::Tensor one = torch::full({1}, comm.rank());
    (comm.rank() == 0 ? comm.send(one, 1, kMost) : comm.receive(one, 0, kMost)).wait();
    EXPECT_EQ(one.item<int>(), 0);
    for (const int tag : {-1, kMost + 1}) {
      const auto text =
          message_of<UsageError>([&] { comm.send(one, 1 - comm.rank(), tag).wait(); });
      EXPECT_NE(text.find("is " + std::to_string(tag) + "; Gloo takes 0 to 524287"),
                std::string::npos)
          << text;
    }
  };
  run_ranks(2, body, {.engine = testing::Engine::gloo});
}

TEST(CommFailures, DisagreementListsEveryRanksShapesOnEveryRank) {
  run_ranks(3, [](Communicator& comm) {
    const at::Tensor mine = comm.rank() == 1 ? torch::ones({1, 2, 5}) : torch::ones({1, 5});
    const auto text = message_of<CommError>([&] { (void)gather(comm, mine); });
    EXPECT_NE(text.find("rank 0: gather of Float[1, 5]"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 1: gather of Float[1, 2, 5]"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 2: gather of Float[1, 5]"), std::string::npos) << text;
    EXPECT_EQ(gather(comm, torch::ones({2})).size(0), 6) << "the group still works";
  });
}

TEST(CommFailures, DifferentOperationsAreADisagreement) {
  run_ranks(2, [](Communicator& comm) {
    const at::Tensor tensor = torch::ones({2});
    const auto text = message_of<CommError>(
        [&] { comm.rank() == 0 ? (void)gather(comm, tensor) : (void)reduce(comm, tensor); });
    EXPECT_NE(text.find("rank 1: reduce(mean) of Float[2]"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace accelerate
