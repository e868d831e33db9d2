// Calls that do not go together, fork(), limits of the system, and work that is dropped: errors of
// the right type on every rank, in time.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "accelerate/base/error.h"
#include "tests/support/ranks.h"
#include "tests/support/scenario.h"

namespace accelerate::testing {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): "20s" reads well
using Calls = std::function<void(Communicator&)>;

at::Tensor ones(std::int64_t count, at::ScalarType dtype = at::kFloat) {
  return at::ones({count}, dtype);
}

struct Mismatch {
  std::string name;
  Calls of_rank_1, of_others;
  std::vector<std::string> words;
};

std::vector<Mismatch> mismatches() {
  const auto sum = [](std::int64_t count, at::ScalarType dtype = at::kFloat,
                      ReduceOp op = ReduceOp::sum) -> Calls {
    return [=](Communicator& comm) { comm.all_reduce(ones(count, dtype), op).wait(); };
  };
  const auto broadcast = [](int root) -> Calls {
    return [=](Communicator& comm) { comm.broadcast(ones(8), root).wait(); };
  };
  const auto message = [](std::int64_t count, at::ScalarType dtype) -> Calls {
    return [=](Communicator& comm) {
      if (comm.rank() == 2) return comm.barrier();
      comm.rank() == 1 ? comm.send(ones(8), 0).wait() : comm.receive(ones(count, dtype), 1).wait();
    };
  };
  const Calls barrier = [](Communicator& comm) { comm.barrier(); };
  return {
      {"operation", barrier, sum(8), {"barrier", "all_reduce(sum) of 8 elements of Float"}},
      {"size", sum(9), sum(8), {"of 9 elements", "of 8 elements"}},
      {"large size", sum(2'000'001), sum(2'000'000), {"of 2000001", "of 2000000"}},
      {"dtype", sum(8, at::kLong), sum(8), {"elements of Long", "elements of Float"}},
      {"root", broadcast(1), broadcast(0), {"from rank 1", "from rank 0"}},
      {"reduction", sum(8, at::kFloat, ReduceOp::max), sum(8), {"(max)", "(sum)"}},
      {"message size", message(8, at::kFloat), message(9, at::kFloat), {"8 elements", "9 elem"}},
      {"message dtype", message(8, at::kFloat), message(4, at::kDouble), {"Float", "Double"}},
  };
}

RANK_MAIN(play_mismatches) {
  Findings findings;
  for (const auto& mismatch : mismatches()) {
    Scenario scenario;
    scenario.body = [&](const std::shared_ptr<Communicator>& comm, Stage&) {
      comm->barrier();
      (comm->rank() == 1 ? mismatch.of_rank_1 : mismatch.of_others)(*comm);
      comm->barrier();  // A rank that asks nothing of the others learns it here.
    };
    for (const auto& ended : play(scenario)) {
      findings.expect_ended(ended, kCommError, mismatch.words, mismatch.name);
    }
  }
  findings.expect_nothing_left();
  return findings.exit_code();
}

TEST(SharedMemoryMisuse, CallsThatDifferAreAnErrorThatShowsBothOnEveryRank) {
  expect_no_findings("play_mismatches");
}

// How a child made by fork() ends that calls `call` and lets go of the group.
int end_of_child(std::shared_ptr<Communicator>& comm, const Calls& call) {
  const pid_t child = fork();
  if (child == 0) {
    int code = kFine;
    try {
      call(*comm);
    } catch (const UsageError&) {
      code = kUsageError;
    } catch (const std::exception&) {
      code = kOtherError;
    }
    comm.reset();
    _exit(code);
  }
  int status = 0;
  for (int i = 0; i < 10'000; ++i) {
    if (waitpid(child, &status, WNOHANG) == child) return WEXITSTATUS(status);
    std::this_thread::sleep_for(1ms);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return kHung;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw DataError(what);
}

RANK_MAIN(play_a_fork) {
  Findings findings;
  Scenario scenario;
  scenario.body = [](std::shared_ptr<Communicator> comm, Stage& stage) {
    comm->barrier();
    Work late;
    const at::Tensor tensor = ones(100);
    if (comm->rank() != 2) late = comm->all_reduce(tensor, ReduceOp::sum);  // Wakes the helper.
    if (comm->rank() != 2) {
      const Calls all_reduce = [](Communicator& c) { c.all_reduce(ones(4), ReduceOp::sum).wait(); };
      require(end_of_child(comm, all_reduce) == kUsageError, "a collective in a child");
      require(end_of_child(comm, [&](Communicator&) { late.wait(); }) == kUsageError,
              "a wait in a child");
      require(end_of_child(comm, [](Communicator& c) { (void)c.split({0, 1, 2}); }) == kUsageError,
              "a split in a child");
      require(end_of_child(comm, [](Communicator&) {}) == kFine, "a child that does nothing");
      stage.steps[static_cast<std::size_t>(comm->rank())] = 1;
    } else {
      require(stage.wait_for_step(0, 1) && stage.wait_for_step(1, 1), "the parents go on");
      late = comm->all_reduce(tensor, ReduceOp::sum);
    }
    late.wait();
    require((tensor == 3).all().item<bool>(), "the right result in the parent");
    const auto part = comm->split({0, 1, 2});
    part->barrier();
  };
  for (const auto& ended : play(scenario)) findings.expect_ended(ended, kFine, {}, "fork");
  findings.expect_nothing_left();
  return findings.exit_code();
}

TEST(SharedMemoryMisuse, AForkedChildIsRefusedAndDoesItsParentNoHarm) {
  expect_no_findings("play_a_fork");
}

void limit(__rlimit_resource resource, rlim_t to) {
  rlimit limits{};
  getrlimit(resource, &limits);
  limits.rlim_cur = to;
  setrlimit(resource, &limits);
}

std::string comm_error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const CommError& error) {
    return error.what();
  }
  throw DataError("no CommError");
}

RANK_MAIN(play_limits) {
  Findings findings;
  Scenario scenario;
  scenario.body = [](const std::shared_ptr<Communicator>& comm, Stage&) {
    limit(RLIMIT_NOFILE, 3);  // Nothing after the meeting needs another descriptor.
    comm->split({0, 1, 2})->barrier();
    const at::Tensor large = comm->empty({1 << 20}, at::kFloat).fill_(1);
    comm->all_reduce(large, ReduceOp::sum).wait();
    require((large == 3).all().item<bool>(), "a right result");
    limit(RLIMIT_FSIZE, 1 << 20);
    const auto text = comm_error_of([&] { (void)comm->empty({1 << 28}, at::kFloat); });
    require(text.find("RLIMIT_FSIZE") != std::string::npos, text);
    const auto huge = std::int64_t{1} << 50;
    limit(RLIMIT_FSIZE, RLIM_INFINITY);
    (void)comm_error_of([&] { (void)comm->empty({huge}, at::kFloat); });
    comm->barrier();
  };
  for (const auto& ended : play(scenario)) findings.expect_ended(ended, kFine, {}, "limits");
  findings.expect_nothing_left();
  return findings.exit_code();
}

TEST(SharedMemoryMisuse, LimitsOfTheSystemAreErrorsOfTheCallThatMeetsThem) {
  expect_no_findings("play_limits");
}

RANK_MAIN(play_a_group_without_memory) {
  Findings findings;
  Scenario scenario;
  scenario.body = [](const std::shared_ptr<Communicator>& comm, Stage&) {
    comm->barrier();
    if (comm->rank() == 0) limit(RLIMIT_FSIZE, 4096);
    std::vector<std::shared_ptr<Communicator>> parts;  // Until what is reserved already is used up.
    for (int i = 0; i < 1000; ++i) parts.push_back(comm->split({0, 1, 2}));
  };
  for (const auto& ended : play(scenario)) {
    findings.expect_ended(ended, kCommError, {"rank 0", "RLIMIT_FSIZE"}, "no memory");
  }
  findings.expect_nothing_left();
  return findings.exit_code();
}

TEST(SharedMemoryMisuse, ARankWithoutMemoryForASubGroupDoesNotKeepTheOthersWaiting) {
  expect_no_findings("play_a_group_without_memory");
}

std::uint64_t address_space() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(getpagesize());
}

RANK_MAIN(play_a_group_that_cannot_be_mapped) {
  Findings findings;
  Scenario scenario;
  scenario.body = [](const std::shared_ptr<Communicator>& comm, Stage&) {
    comm->barrier();
    if (comm->rank() == 1) limit(RLIMIT_AS, address_space() + (1 << 20));
    std::vector<std::shared_ptr<Communicator>> parts;
    for (int i = 0; i < 1000; ++i) parts.push_back(comm->split({0, 1, 2}));
  };
  for (const auto& ended : play(scenario)) {
    findings.expect_ended(ended, kCommError, {"rank 1", "cannot map"}, "no address space");
  }
  findings.expect_nothing_left();
  return findings.exit_code();
}

TEST(SharedMemoryMisuse, ARankThatCannotMapASubGroupDoesNotKeepTheOthersWaiting) {
  expect_no_findings("play_a_group_that_cannot_be_mapped");
}

RANK_MAIN(play_dropped_work) {
  Findings findings;
  for (const bool drops_group_first : {true, false}) {
    Scenario scenario;
    scenario.body = [=](std::shared_ptr<Communicator> comm, Stage& stage) {
      comm->barrier();
      if (comm->rank() == 1) {
        stage.wait_for_release();
        comm->barrier();
      }
      auto work = comm->all_reduce(comm->empty({1 << 20}, at::kFloat), ReduceOp::sum);
      if (drops_group_first) comm.reset();
      if (!drops_group_first) work = {};
    };
    scenario.outside = [&](Stage& stage, const std::vector<pid_t>&) {
      findings.expect(stage.wait_for_end_of_all_but(1, 3), "destruction waits for a late rank");
      stage.released = true;
    };
    const auto ended = play(scenario);
    for (const int rank : {0, 2}) {
      findings.expect_ended(ended[static_cast<std::size_t>(rank)], kFine, {}, "dropped work");
    }
    findings.expect_ended(ended[1], kCommError, {"rank"}, "the late rank");
  }
  findings.expect_nothing_left();
  return findings.exit_code();
}

TEST(SharedMemoryMisuse, WorkInFlightMayBeDroppedBeforeOrAfterItsGroup) {
  expect_no_findings("play_dropped_work");
}

RANK_MAIN(play_a_late_rank) {
  Findings findings;
  Scenario scenario;
  scenario.timeout = 2s;
  scenario.body = [](const std::shared_ptr<Communicator>& comm, Stage& stage) {
    comm->barrier();
    if (comm->rank() == 1) stage.wait_for_release();
    comm->all_reduce(ones(8), ReduceOp::sum).wait();  // What is there already still counts.
    comm->barrier();
  };
  scenario.outside = [&](Stage& stage, const std::vector<pid_t>&) {
    findings.expect(stage.wait_for_end_of_all_but(1, 3), "the others wait for too long");
    stage.released = true;
  };
  for (const auto& ended : play(scenario)) {
    findings.expect_ended(ended, kCommError, {"rank"}, "a late rank");
  }
  findings.expect_nothing_left();
  return findings.exit_code();
}

TEST(SharedMemoryMisuse, ALateRankIsATimeoutOfTheOthersAndFindsThemGone) {
  expect_no_findings("play_a_late_rank");
}

}  // namespace
}  // namespace accelerate::testing
