#include "accelerate/launch/supervisor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "accelerate/base/error.h"
#include "tests/launch/support.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using testing::probe_plan;
using testing::processes_tagged;
using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

// Every test checks at its end that no process it started is left.
class Supervisor : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(testing::eventually([&] { return processes_tagged(tag_) == 0; }, 20s));
  }

  LaunchResult run(int ranks, Words words, std::chrono::milliseconds grace = 30s) {
    words.insert(words.begin(), tag_);
    plan_ = probe_plan(ranks, words);
    plan_.grace_period = grace;
    const auto start = Clock::now();
    LaunchResult result = launch(plan_, events_);
    took_ = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
    return result;
  }

  // Words that let rank 1 go on once rank 0 has done those before its mark.
  [[nodiscard]] std::string mark_of_rank_0() const { return "0:mark=" + folder_.path().string(); }
  [[nodiscard]] std::string await_rank_0() const {
    return "1:await=" + (folder_.path() / "0").string();
  }

  const std::string tag_ = testing::unique_tag();
  LaunchPlan plan_;
  LaunchEvents events_;
  std::chrono::milliseconds took_{0};
  testing::TemporaryFolder folder_;
};

TEST_F(Supervisor, SucceedsWhenEveryRankDoes) {
  const auto result = run(3, {"0:sleep=1"});
  EXPECT_EQ(result.exit_code(), 0);
  EXPECT_FALSE(result.first_failure);
  ASSERT_EQ(result.ranks.size(), 3U);
  EXPECT_EQ(result.ranks[2].exit_code, 0);
}

// `trap '' CHLD` in a shell, and some service managers.
TEST_F(Supervisor, SeesTheEndOfRanksWhereSigchldIsInheritedAsIgnored) {
  struct sigaction ignore{}, before{}, after{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGCHLD, &ignore, &before);
  const auto good = run(2, {"sleep=1"});
  const auto bad = run(2, {"1:exit=7", "sleep=1"});
  sigaction(SIGCHLD, &before, &after);
  EXPECT_EQ(good.exit_code(), 0);
  EXPECT_EQ(bad.first_failure, 1);
  EXPECT_EQ(bad.ranks[1].exit_code, 7);
  EXPECT_EQ(after.sa_handler, SIG_IGN) << "the caller's own disposition comes back";
}

TEST_F(Supervisor, LetsTheOthersGoOnWhenARankEndsEarlyWithZero) {
  const auto result = run(2, {"0:exit=0", "sleep=200", "exit=0"});
  EXPECT_EQ(result.exit_code(), 0);
  EXPECT_GE(result.ranks[1].ran_for, 200ms);
}

TEST_F(Supervisor, ReportsTheFirstFailureAndEndsTheOthers) {
  std::vector<int> failed;
  events_.rank_failed = [&](const RankResult& rank) { failed.push_back(rank.rank); };
  const auto result = run(3, {"1:exit=9", "sleep=60000"});
  EXPECT_EQ(result.exit_code(), 9);
  EXPECT_EQ(result.first_failure, 1);
  EXPECT_EQ(failed, std::vector{1});
  EXPECT_TRUE(result.ranks[0].stopped_by_us);
  EXPECT_EQ(result.ranks[0].signal, SIGTERM);
  EXPECT_LT(took_, 10s);
}

TEST_F(Supervisor, GivesRanksTheGracePeriodToEndInTheirOwnWay) {
  const auto result =
      run(2, {"0:catch=15", mark_of_rank_0(), await_rank_0(), "1:exit=3", "sleep=60000"});
  EXPECT_EQ(result.exit_code(), 3);
  EXPECT_EQ(result.ranks[0].exit_code, 7);
}

TEST_F(Supervisor, KillsARankThatIgnoresSigtermAfterTheGracePeriod) {
  bool killing = false;
  events_.killing = [&] { killing = true; };
  const auto result =
      run(2, {"0:ignore=15", mark_of_rank_0(), await_rank_0(), "1:exit=3", "sleep=60000"}, 300ms);
  EXPECT_EQ(result.ranks[0].signal, SIGKILL);
  EXPECT_TRUE(killing);
  EXPECT_GE(took_, 300ms);
  EXPECT_LT(took_, 20s);
}

TEST_F(Supervisor, EndsARankThatIsStopped) {
  const auto result = run(2, {"0:stop", "1:sleep=1000", "1:exit=3", "sleep=60000"});
  EXPECT_EQ(result.ranks[0].signal, SIGTERM);
  EXPECT_LT(took_, 20s);
}

TEST_F(Supervisor, EndsWhatAFailedRankStarted) {
  EXPECT_EQ(run(2, {"1:child", "1:exit=3", "sleep=60000"}).exit_code(), 3);
  EXPECT_EQ(processes_tagged(tag_), 0);
}

TEST_F(Supervisor, EndsWhatSuccessfulRanksLeftBehind) {
  EXPECT_EQ(run(2, {"child"}).exit_code(), 0);
  EXPECT_EQ(processes_tagged(tag_), 0);
}

TEST_F(Supervisor, KillsLeftoversThatIgnoreSigterm) {
  EXPECT_EQ(run(1, {"deaf_child", "sleep=500"}, 300ms).exit_code(), 0);
  EXPECT_EQ(processes_tagged(tag_), 0);
  EXPECT_LT(took_, 20s);
}

TEST_F(Supervisor, RunsSixtyFourRanks) {
  const auto result = run(64, {"63:sleep=300", "63:exit=5", "sleep=60000"});
  EXPECT_EQ(result.first_failure, 63);
  EXPECT_EQ(result.exit_code(), 5);
  EXPECT_LT(took_, 30s);
}

TEST_F(Supervisor, ThrowsWhenThereIsNothingToExecute) {
  LaunchPlan plan = probe_plan(2, {});
  plan.argv[0] = folder_.write("text", "no program");
  EXPECT_THROW(launch(plan), LaunchError);
  plan.argv[0] = folder_.path() / "absent";
  EXPECT_THROW(launch(plan), LaunchError);
  EXPECT_THROW(launch(LaunchPlan{}), LaunchError);
}

TEST_F(Supervisor, PassesTheEnvironmentOfThePlan) {
  plan_ = probe_plan(2, {tag_, "env=" + folder_.path().string()});
  plan_.shared = {{"SHARED", "x"}, {"RANK", "overridden by the rank's own"}};
  launch(plan_);
  const std::string text = testing::text_of(folder_.path() / "1");
  EXPECT_NE(text.find(std::string("\0SHARED=x\0", 10)), std::string::npos);
  EXPECT_NE(text.find(std::string("RANK=1\0", 7)), std::string::npos);
}

TEST_F(Supervisor, LeavesNoDescriptorOpen) {
  const auto open_now = [] { return testing::entries("/proc/self/fd"); };
  const int before = open_now();
  run(4, {"2:exit=1"});
  EXPECT_EQ(open_now(), before);
}

TEST_F(Supervisor, LeavesTheSignalMaskAsItWas) {
  sigset_t before;
  sigset_t after;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  run(1, {});
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (int signal = 1; signal < NSIG; ++signal) {
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
  }
}

TEST_F(Supervisor, SaysSoWhenTheLimitOnOpenFilesIsTooLow) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit low = before;
  low.rlim_cur = 24;
  setrlimit(RLIMIT_NOFILE, &low);
  EXPECT_THROW(run(64, {"sleep=60000"}), LaunchError);
  setrlimit(RLIMIT_NOFILE, &before);
}

// Each way a signal can end a rank, before it has done anything and later.
class DeathBySignal : public Supervisor, public ::testing::WithParamInterface<int> {};

TEST_P(DeathBySignal, IsReportedAndEndsTheGroup) {
  const std::string number = std::to_string(GetParam());
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const std::string delay : {"0", "50"}) {
    const auto result = run(2, {"1:sleep=" + delay, "1:signal=" + number, "sleep=60000"});
    EXPECT_EQ(result.first_failure, 1);
    EXPECT_EQ(result.ranks[1].signal, GetParam());
    EXPECT_EQ(result.exit_code(), 128 + GetParam());
    EXPECT_LT(took_, 10s);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeathBySignal,
                         ::testing::Values(SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT,
                                           SIGBUS, SIGFPE, SIGKILL, SIGUSR1, SIGSEGV, SIGUSR2,
                                           SIGPIPE, SIGALRM, SIGTERM, SIGXCPU, SIGXFSZ, SIGSYS),
                         [](const auto& info) {
                           return std::string("SIG") + sigabbrev_np(info.param);
                         });

}  // namespace
}  // namespace accelerate
