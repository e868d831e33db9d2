// What ranks on the CPU talk through, by what they find and by what they are told.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/types.h>
#include <torch/version.h>

#include <future>
#include <iostream>
#include <map>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/comm/rendezvous.h"
#include "accelerate/comm/selection.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using testing::run_processes;
using Environment = std::map<std::string, std::string>;

// Prints what the group talks through, or the error. Rank 1 asks for TEST_OTHER_WISH when it is
// set.
RANK_MAIN(say_backend) {
  auto options = rendezvous_options_from_env();
  if (const auto other = env("TEST_OTHER_WISH"); other && options.rank == 1) {
    setenv("ACCELERATE_COMM", other->c_str(), 1);
  }
  try {
    const auto comm = rendezvous(options, {.backend = env("TEST_BACKEND").value_or("")});
    at::Tensor sum = torch::ones({3});
    comm->all_reduce(sum, ReduceOp::sum).wait();
    std::cout << comm->backend() << " " << sum[0].item<int>() << std::endl;
    return 0;
  } catch (const Error& error) {
    std::cout << error.kind() << ": " << error.what() << std::endl;
    return 42;
  }
}

RANK_MAIN(say_backend_without_memory) {
  if (*env("RANK") == "1") {
    const rlimit tiny{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &tiny);
  }
  return rank_main_say_backend();
}

struct Choice {
  const char* name;
  Environment env;
  const char* says;  // Of every rank.
};

class SelectionBy : public ::testing::TestWithParam<Choice> {};

TEST_P(SelectionBy, IsWhatEveryRankSays) {
  Environment variables = GetParam().env;
  variables.emplace("ACCELERATE_TIMEOUT", "30");
  for (const auto& rank : run_processes(2, "say_backend", {.env = variables})) {
    EXPECT_FALSE(rank.timed_out);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, GetParam().says, rank.out) << rank.err;
  }
}

INSTANTIATE_TEST_SUITE_P(
    What, SelectionBy,
    ::testing::Values(
        Choice{"itself", {}, "shared_memory 2"},
        Choice{"wish_for_gloo", {{"ACCELERATE_COMM", "gloo"}}, "gloo 2"},
        Choice{"wish_for_memory", {{"ACCELERATE_COMM", "shared_memory"}}, "shared_memory 2"},
        Choice{"empty_wish", {{"ACCELERATE_COMM", ""}}, "shared_memory 2"},
        Choice{"program", {{"TEST_BACKEND", "gloo"}}, "gloo 2"},
        Choice{"program_against_variable",
               {{"TEST_BACKEND", "shared_memory"}, {"ACCELERATE_COMM", "gloo"}},
               "shared_memory 2"},
        Choice{"unknown_wish",
               {{"ACCELERATE_COMM", "mpi"}},
               "ConfigError: ACCELERATE_COMM is 'mpi'; allowed are gloo and shared_memory"},
        Choice{"unknown_backend",
               {{"TEST_BACKEND", "mpi"}},
               "ConfigError: backend is 'mpi'; allowed are gloo, shared_memory and nccl"},
        Choice{"wishes_that_differ",
               {{"ACCELERATE_COMM", "shared_memory"}, {"TEST_OTHER_WISH", "gloo"}},
               "asks for 'shared_memory' on rank 0 and for 'gloo' on rank 1"},
        Choice{"a_wish_of_one",
               {{"TEST_OTHER_WISH", "gloo"}},
               "asks for nothing on rank 0 and for 'gloo' on rank 1"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Selection, IsSaidInTheLogOnce) {
  const auto ranks = run_processes(2, "say_backend", {.env = {{"ACCELERATE_LOG_LEVEL", "info"}}});
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "2 ranks talk through shared memory",
                      ranks[0].err + ranks[1].err);
}

// A limit on files leaves no room for a memory file.
TEST(Selection, FallsBackToGlooWhenMemoryCannotBeShared) {
  const auto ranks = run_processes(2, "say_backend_without_memory");
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank.exit_code, 0) << rank.err;
    EXPECT_EQ(rank.out, "gloo 2\n");
  }
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "RLIMIT_FSIZE", ranks[0].err + ranks[1].err);
}

// What rank `rank` of three is told, of which the last one has another LibTorch.
std::string refusal_of(const c10::intrusive_ptr<c10d::Store>& store, int rank) {
  const std::string build = rank == 2 ? "LibTorch 1.0.0" : "";
  return testing::kind_and_message_of([&] {
    (void)detail::connect_on_cpu(
        store, {rank, 3, 20s, "10.0.0." + std::to_string(rank + 1), "gloo", nullptr, build});
  });
}

TEST(Selection, RefusesAnotherLibTorchOnAllRanksBeforeTheyConnect) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::future<std::string>> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(std::async(std::launch::async, refusal_of, store, rank));
  for (auto& rank : ranks) {
    const std::string said = rank.get();
    EXPECT_TRUE(said.starts_with("ConfigError: rank 0 (process ")) << said;
    EXPECT_NE(
        said.find(", at 10.0.0.1) runs with LibTorch " TORCH_VERSION ", and rank 2 (process "),
        std::string::npos)
        << said;
    EXPECT_NE(said.find(", at 10.0.0.3) with LibTorch 1.0.0. All ranks"), std::string::npos)
        << said;
  }
}

}  // namespace
}  // namespace accelerate
