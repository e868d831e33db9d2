// What the launcher does when it is itself interrupted or killed. These need the command, in a
// process of its own.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>

#include "tests/launch/support.h"
#include "tests/support/support.h"

namespace accelerate::testing {
namespace {

using namespace std::chrono_literals;

class Interruption : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(accelerate_program())) GTEST_SKIP() << "built without the command";
  }
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return processes_tagged(tag_) == 0; }, 20s));
  }

  // Starts two probes and returns when both have done `words`.
  void start(std::vector<std::string> words, const std::string& grace = "30") {
    std::vector<std::string> argv = {
        accelerate_program(), "launch", "--cpu", "--num_processes", "2", "--grace_period", grace};
    argv.insert(argv.end(), launch_flags_.begin(), launch_flags_.end());
    argv.insert(argv.end(), {probe_program(), tag_});
    argv.insert(argv.end(), words.begin(), words.end());
    argv.push_back("mark=" + marks());
    argv.push_back("sleep=60000");
    std::filesystem::create_directory(marks());
    launcher_ = std::make_unique<Background>(argv, output());
    ASSERT_TRUE(eventually([&] { return entries(marks()) == 2; }, 20s));
  }

  [[nodiscard]] std::string marks() const { return folder_.path() / "marks"; }
  [[nodiscard]] std::string output() const { return folder_.path() / "out"; }

  const std::string tag_ = unique_tag();
  TemporaryFolder folder_;
  std::vector<std::string> launch_flags_;
  std::unique_ptr<Background> launcher_;
};

class InterruptionBySignal : public Interruption, public ::testing::WithParamInterface<int> {};

TEST_P(InterruptionBySignal, ReachesTheRanksAndIsTheExitCode) {
  start({"catch=" + std::to_string(GetParam())});
  launcher_->signal(GetParam());
  EXPECT_EQ(launcher_->wait(20s), 128 + GetParam());
  const std::string caught = "caught " + std::to_string(GetParam()) + "\n";
  EXPECT_EQ(text_of(output()), caught + caught);
}

INSTANTIATE_TEST_SUITE_P(All, InterruptionBySignal,
                         ::testing::Values(SIGINT, SIGTERM, SIGHUP, SIGQUIT), [](const auto& info) {
                           return std::string("SIG") + sigabbrev_np(info.param);
                         });

TEST_F(Interruption, ASecondSigintKillsAtOnce) {
  start({"ignore=2"}, "60");
  launcher_->signal(SIGINT);
  EXPECT_EQ(launcher_->wait(300ms), -1);
  // Two that come before the launcher has looked are one to it.
  int end = -1;
  for (int i = 0; i < 60 && end < 0; ++i) {
    launcher_->signal(SIGINT);
    end = launcher_->wait(300ms);
  }
  EXPECT_EQ(end, 130);
}

TEST_F(Interruption, RanksThatIgnoreSigtermAreKilledAfterTheGracePeriod) {
  start({"ignore=15"}, "0.3");
  launcher_->signal(SIGTERM);
  EXPECT_EQ(launcher_->wait(20s), 143);
}

TEST_F(Interruption, UserSignalsArePassedOnAndEndNothing) {
  start({"0:ignore=10", "1:catch=10"});
  launcher_->signal(SIGUSR1);
  EXPECT_EQ(launcher_->wait(20s), 7);
  EXPECT_EQ(text_of(output()), "caught 10\n");
}

// --- Pre-emption ---------------------------------------------------------------------------------

// The code by which a rank says that it was asked to end, and what it was asked by.
struct Asked {
  const char* words;
  int code;
};

class InterruptionOfARank : public Interruption, public ::testing::WithParamInterface<Asked> {};

TEST_P(InterruptionOfARank, EndsTheJobWithItsCodeAndUsesUpNoRestart) {
  const std::string go = folder_.path() / "go";
  launch_flags_ = {"--max_restarts", "3"};
  start({"mark=" + marks(), "await=" + go, std::string("1:") + GetParam().words});
  folder_.write("go", "");
  EXPECT_EQ(launcher_->wait(20s), GetParam().code);
  const std::string told = text_of(output() + ".err");
  EXPECT_NE(told.find("because it was asked to (SIG"), std::string::npos) << told;
  EXPECT_EQ(told.find("starting all ranks again"), std::string::npos) << told;
}

INSTANTIATE_TEST_SUITE_P(All, InterruptionOfARank,
                         ::testing::Values(Asked{"exit=143", 143}, Asked{"exit=138", 138}),
                         [](const auto& info) { return std::to_string(info.param.code); });

// A death by SIGTERM may have any cause, such as a program that guards the memory.
TEST_F(Interruption, OfARankByASignalThatItDoesNotHandleIsAFailure) {
  const std::string go = folder_.path() / "go";
  launch_flags_ = {"--max_restarts", "1"};
  start({"mark=" + marks(), "await=" + go, "1:signal=15"});
  folder_.write("go", "");
  EXPECT_EQ(launcher_->wait(20s), 143);
  EXPECT_NE(text_of(output() + ".err").find("restart 1 of 1"), std::string::npos);
}

TEST_F(Interruption, BySigusr1IsPassedOnAndUsesUpNoRestart) {
  launch_flags_ = {"--max_restarts", "3"};
  start({});
  launcher_->signal(SIGUSR1);  // Of which the ranks die.
  EXPECT_EQ(launcher_->wait(20s), 138);
  EXPECT_EQ(text_of(output() + ".err").find("starting all ranks again"), std::string::npos);
}

TEST_F(Interruption, NothingOutlivesALauncherThatIsKilled) {
  start({});
  EXPECT_EQ(processes_tagged(tag_), 4);  // the launcher, its guardian, two ranks
  launcher_->signal(SIGKILL);
  EXPECT_EQ(launcher_->wait(20s), 137);
  EXPECT_TRUE(eventually([&] { return processes_tagged(tag_) == 0; }, 20s));
}

TEST_F(Interruption, GrandchildrenDoNotOutliveALauncherThatIsKilled) {
  start({"child", "deaf_child", "ignore=15"});
  EXPECT_GE(processes_tagged(tag_), 7);
  launcher_->signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return processes_tagged(tag_) == 0; }, 20s));
}

TEST_F(Interruption, StoppingTheLauncherStopsTheRanks) {
  start({});
  launcher_->signal(SIGTSTP);
  EXPECT_TRUE(eventually([&] { return processes_tagged(tag_, 'T') == 3; }, 20s));
  launcher_->signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return processes_tagged(tag_, 'T') == 0; }, 20s));
  launcher_->signal(SIGTERM);
  EXPECT_EQ(launcher_->wait(20s), 143);
}

TEST_F(Interruption, OfRanksFoundDeadTogetherTheOneKilledByASignalIsTheCause) {
  const std::string go = folder_.path() / "go";
  start({"mark=" + marks(), "await=" + go, "0:exit=1", "1:signal=11"});
  launcher_->signal(SIGSTOP);  // so that it finds both at once
  EXPECT_TRUE(eventually([&] { return processes_tagged(tag_, 'T') == 1; }, 20s));
  folder_.write("go", "");
  EXPECT_TRUE(eventually([&] { return processes_tagged(tag_) == 2; }, 20s));
  launcher_->signal(SIGCONT);
  EXPECT_EQ(launcher_->wait(20s), 139);
  EXPECT_NE(text_of(output() + ".err").find("rank 1"), std::string::npos);
}

}  // namespace
}  // namespace accelerate::testing
