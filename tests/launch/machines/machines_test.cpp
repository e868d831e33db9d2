// Launchers of several machines. On loopback they are processes; in network namespaces, hosts.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <regex>
#include <thread>

#include "accelerate/launch/port.h"
#include "tests/launch/machines/machines.h"
#include "tests/support/support.h"

namespace accelerate::testing {
namespace {

using namespace std::chrono_literals;
using Words = Machines::Words;

TEST_F(Machines, AreOneJob) {
  auto& first = start(0, {"--num_processes", "4"}, {"env=" + marks()});
  auto& second = start(1, {"--num_processes", "4"}, {"env=" + marks()});
  EXPECT_EQ(first.wait(20s), 0) << errors(0);
  EXPECT_EQ(second.wait(20s), 0) << errors(1);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(variable(rank, "RANK"), std::to_string(rank));
    EXPECT_EQ(variable(rank, "LOCAL_RANK"), std::to_string(rank % 2));
    EXPECT_EQ(variable(rank, "GROUP_RANK"), std::to_string(rank / 2));
    EXPECT_EQ(variable(rank, "WORLD_SIZE"), "4");
    EXPECT_EQ(variable(rank, "LOCAL_WORLD_SIZE"), "2");
    EXPECT_EQ(variable(rank, "GROUP_WORLD_SIZE"), "2");
    EXPECT_EQ(variable(rank, "MASTER_ADDR"), "127.0.0.1");
    EXPECT_EQ(variable(rank, "MASTER_PORT"), std::to_string(port_));
    EXPECT_EQ(variable(rank, "TORCHELASTIC_USE_AGENT_STORE"), "True");
    EXPECT_EQ(variable(rank, "ACCELERATE_JOB_TOKEN"), variable(0, "ACCELERATE_JOB_TOKEN"));
    EXPECT_EQ(variable(rank, "ACCELERATE_LAUNCH_ID"), variable(0, "ACCELERATE_LAUNCH_ID"));
  }
  EXPECT_EQ(variable(0, "ACCELERATE_LAUNCH_ID").size(), 32U);
  EXPECT_EQ(variable(0, "ACCELERATE_JOB_TOKEN").size(), 32U);
}

TEST_F(Machines, WaitForTheLastAndCountRolesApart) {
  std::vector<Background*> all;
  const Words of_three = {"--num_machines", "3", "--num_processes", "3"};
  for (const int rank : {2, 1, 0}) {
    Words flags = of_three;
    flags.insert(flags.end(), {"--role", rank == 1 ? "judge" : "trainer"});
    all.push_back(&start(rank, flags, {"env=" + marks()}));
    if (rank != 0) std::this_thread::sleep_for(50ms);
  }
  for (auto* one : all) EXPECT_EQ(one->wait(20s), 0);
  EXPECT_EQ(variable(1, "ROLE_RANK"), "0");
  EXPECT_EQ(variable(1, "ROLE_WORLD_SIZE"), "1");
  EXPECT_EQ(variable(2, "ROLE_RANK"), "1");
  EXPECT_EQ(variable(2, "ROLE_WORLD_SIZE"), "2");
}

TEST_F(Machines, EndTogetherWhenARankFails) {
  auto& first = start(0, {"--num_processes", "2"}, {"0:sleep=60000", "1:exit=9"});
  auto& second = start(1, {"--num_processes", "2"}, {"0:sleep=60000", "1:exit=9"});
  EXPECT_EQ(second.wait(20s), 9);
  EXPECT_EQ(first.wait(20s), 9);
  EXPECT_TRUE(std::regex_search(errors(0), std::regex("machine 1 \\(.+\\): rank 1 \\(pid [0-9]+\\) "
                                                      "exited with code 9")))
      << errors(0);
}

TEST_F(Machines, EndTogetherWhenALauncherIsAskedTo) {
  auto& first = start(0, {"--num_processes", "2"}, {"mark=" + marks(), "sleep=60000"});
  auto& second = start(1, {"--num_processes", "2"}, {"mark=" + marks(), "sleep=60000"});
  ASSERT_TRUE(eventually([&] { return entries(marks()) == 2; }, 20s));
  first.signal(SIGINT);
  EXPECT_EQ(first.wait(20s), 130);
  EXPECT_EQ(second.wait(20s), 130);
  EXPECT_NE(errors(1).find("SIGINT asked its launcher to end"), std::string::npos) << errors(1);
}

// The store is a process of its own, so it outlives the launcher of machine 0 long enough to tell.
TEST_F(Machines, EndTogetherWhenALauncherIsKilled) {
  for (const int killed : {0, 1}) {
    SCOPED_TRACE(killed);
    launchers_.clear();
    const std::string place = folder_.path() / std::to_string(killed);
    std::filesystem::create_directory(place);
    port_ = free_port("127.0.0.1");
    for (const int rank : {0, 1})
      start(rank, {"--num_processes", "2"}, {"mark=" + place, "sleep=60000"});
    ASSERT_TRUE(eventually([&] { return entries(place) == 2; }, 20s)) << errors(0) << errors(1);
    launchers_[static_cast<std::size_t>(killed)]->signal(SIGKILL);
    const int other = 1 - killed;
    EXPECT_EQ(launchers_[static_cast<std::size_t>(other)]->wait(20s), 1);
    EXPECT_NE(errors(other).find("machine " + std::to_string(killed)), std::string::npos);
    EXPECT_NE(errors(other).find("launcher was killed"), std::string::npos) << errors(other);
    EXPECT_TRUE(eventually([&] { return port_is_free("127.0.0.1", port_); }, 10s));
  }
}

// The words of rank 1 fail in the first round alone: then its mark is not there yet.
TEST_F(Machines, StartAllRanksAgain) {
  const std::string first = folder_.path() / "failed";
  const Words words = {"1:fail_unless=" + first, "env=" + marks()};
  auto& one = start(0, {"--num_processes", "2", "--max_restarts", "1"}, words);
  auto& other = start(1, {"--num_processes", "2", "--max_restarts", "1"}, words);
  EXPECT_EQ(one.wait(20s), 0) << errors(0);
  EXPECT_EQ(other.wait(20s), 0) << errors(1);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(variable(rank, "TORCHELASTIC_RESTART_COUNT"), "1");
    EXPECT_EQ(variable(rank, "TORCHELASTIC_MAX_RESTARTS"), "1");
    EXPECT_EQ(variable(rank, "ACCELERATE_LAUNCH_ID"), variable(0, "ACCELERATE_LAUNCH_ID"));
    EXPECT_NE(errors(rank).find("starting all ranks again: 2 machines, 2 ranks"), std::string::npos)
        << errors(rank);
  }
}

TEST_F(Machines, EndWhenTheRestartsAreUsedUp) {
  for (const int rank : {0, 1})
    start(rank, {"--num_processes", "2", "--max_restarts", "2"}, {"0:sleep=60000", "exit=5"});
  for (const int number : {0, 1}) {
    EXPECT_EQ(launchers_[static_cast<std::size_t>(number)]->wait(20s), 5);
    const std::string all = errors(number);
    std::size_t starts = 0;
    for (auto at = all.find("starting all"); at != std::string::npos;
         at = all.find("starting all", at + 1))
      ++starts;
    EXPECT_EQ(starts, 2U) << all;
  }
}

// --- Machines that come and go -----------------------------------------------------------------

const Words kElastic = {"--rdzv_backend",  "c10d", "--num_machines", "1:3",
                        "--num_processes", "3",    "--rdzv_conf",    "last_call_timeout=0.3"};

TEST_F(Machines, ComeLaterAndAreTakenIn) {
  const std::string go = folder_.path() / "go";
  const Words words = {"env=" + marks(), "await=" + go};
  auto& first = start(0, kElastic, words);
  ASSERT_TRUE(eventually([&] { return variable(0, "WORLD_SIZE") == "1"; }, 20s)) << errors(0);
  auto& second = start(0, kElastic, words);
  ASSERT_TRUE(eventually([&] { return variable(0, "WORLD_SIZE") == "2"; }, 20s)) << errors(0);
  ASSERT_TRUE(eventually([&] { return variable(1, "WORLD_SIZE") == "2"; }, 20s)) << errors(1);
  EXPECT_EQ(variable(1, "TORCHELASTIC_RESTART_COUNT"), "1");
  EXPECT_NE(errors(0).find("it joins the job"), std::string::npos) << errors(0);
  folder_.write("go", "");
  EXPECT_EQ(first.wait(20s), 0) << errors(0);
  EXPECT_EQ(second.wait(20s), 0) << errors(1);
}

TEST_F(Machines, GoAndTheOthersGoOn) {
  const std::string go = folder_.path() / "go";
  const Words words = {"env=" + marks(), "await=" + go};
  Words flags = kElastic;
  flags[3] = "2:3";
  for (int i = 0; i < 3; ++i) {
    start(0, flags, words);
    ASSERT_TRUE(is_hosted());
  }
  ASSERT_TRUE(eventually([&] { return variable(2, "WORLD_SIZE") == "3"; }, 20s)) << errors(0);
  launchers_[2]->signal(SIGKILL);
  ASSERT_TRUE(eventually([&] { return variable(0, "WORLD_SIZE") == "2"; }, 20s)) << errors(0);
  ASSERT_TRUE(eventually([&] { return variable(1, "WORLD_SIZE") == "2"; }, 20s)) << errors(1);
  EXPECT_EQ(variable(0, "TORCHELASTIC_RESTART_COUNT"), "1");
  EXPECT_NE(errors(0).find("its launcher was killed"), std::string::npos) << errors(0);
  folder_.write("go", "");
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
    EXPECT_EQ(launchers_[i]->wait(20s), 0) << errors(static_cast<int>(i));
}

// A scheduler takes one machine. The ranks of all machines agree to save, so all end with 138.
TEST_F(Machines, AreTakenByASchedulerAndTheOthersGoOn) {
  const std::string go = folder_.path() / "go";
  for (const int signal : {SIGTERM, SIGUSR1}) {
    SCOPED_TRACE(signal);
    launchers_.clear();
    std::filesystem::remove_all(marks());
    std::filesystem::remove(go);
    port_ = free_port("127.0.0.1");
    const Words words = {"env=" + marks(),
                         "agree=" + folder_.path().string() + "/asked" + std::to_string(signal),
                         "await=" + go};
    Words flags = kElastic;
    flags[3] = "2:3";
    for (int i = 0; i < 3; ++i) {
      start(0, flags, words);
      ASSERT_TRUE(is_hosted());
    }
    ASSERT_TRUE(eventually([&] { return variable(2, "WORLD_SIZE") == "3"; }, 20s)) << errors(0);
    launchers_[2]->signal(signal);
    EXPECT_EQ(launchers_[2]->wait(20s), 128 + signal) << errors(2);
    ASSERT_TRUE(eventually([&] { return variable(0, "WORLD_SIZE") == "2"; }, 20s)) << errors(0);
    ASSERT_TRUE(eventually([&] { return variable(1, "WORLD_SIZE") == "2"; }, 20s)) << errors(1);
    folder_.write("go", "");
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
      EXPECT_EQ(launchers_[i]->wait(20s), 0) << errors(static_cast<int>(i));
  }
}

// A rank that fails because a machine is lost is no failure of the job.
TEST_F(Machines, AreLostThoughARankFailsFirst) {
  const std::string go = folder_.path() / "go";
  Words flags = kElastic;
  flags[3] = "1:2";
  flags[5] = "2";
  flags[7] = "last_call_timeout=20";  // Both are there from the beginning.
  const std::string lost = folder_.path() / "lost";
  start(0, flags, {"env=" + marks(), "0:fail_once=" + lost, "await=" + go});
  ASSERT_TRUE(is_hosted());
  start(0, flags, {"env=" + marks(), "await=" + go});
  ASSERT_TRUE(eventually([&] { return variable(1, "WORLD_SIZE") == "2"; }, 20s)) << errors(0);
  folder_.write("lost", "");  // Rank 0 fails now, and a little later the machine is gone.
  std::this_thread::sleep_for(100ms);
  launchers_[1]->signal(SIGKILL);
  ASSERT_TRUE(eventually([&] { return variable(0, "WORLD_SIZE") == "1"; }, 20s)) << errors(0);
  folder_.write("go", "");
  EXPECT_EQ(launchers_[0]->wait(20s), 0) << errors(0);
}

// A machine whose ranks are done waits for the others, whose failure is its own.
TEST_F(Machines, EndWhenAllHaveSucceeded) {
  auto& first = start(0, {"--num_processes", "2"}, {"1:sleep=300", "1:exit=3"});
  auto& second = start(1, {"--num_processes", "2"}, {"1:sleep=300", "1:exit=3"});
  EXPECT_EQ(second.wait(20s), 3);
  EXPECT_EQ(first.wait(20s), 3);
}

struct Disagreement {
  const char* name;
  Words flags0, flags1;
  Words before0, before1;
  const char* error;  // That both machines say.
};

void PrintTo(const Disagreement& row, std::ostream* out) {
  *out << row.name;
}

class MachinesDisagree : public Machines, public ::testing::WithParamInterface<Disagreement> {};

TEST_P(MachinesDisagree, IsSaidOnBoth) {
  const auto& row = GetParam();
  auto& first = start(0, row.flags0, {"sleep=60000"}, row.before0);
  auto& second = start(1, row.flags1, {"sleep=60000"}, row.before1);
  EXPECT_NE(first.wait(20s), 0);
  EXPECT_NE(second.wait(20s), 0);
  for (const int number : {0, 1})
    EXPECT_TRUE(std::regex_search(errors(number), std::regex(row.error))) << errors(number);
}

const std::string kToken0 = "ACCELERATE_JOB_TOKEN=00112233445566778899aabbccddeeff";
const std::string kToken1 = "ACCELERATE_JOB_TOKEN=00112233445566778899aabbccddeef0";

INSTANTIATE_TEST_SUITE_P(
    All, MachinesDisagree,
    ::testing::Values(
        Disagreement{"num_machines",
                     {"--num_machines", "2"},
                     {"--num_machines", "3"},
                     {},
                     {},
                     "num_machines is 2 on machine 0 \\(.+\\) and 3 on machine 1"},
        Disagreement{"num_processes",
                     {"--num_processes", "2"},
                     {"--num_processes", "4"},
                     {},
                     {},
                     "num_processes, the ranks of all machines, is 2 on .* and 4 on machine 1"},
        Disagreement{"settings",
                     {"--mixed_precision", "no"},
                     {"--mixed_precision", "bf16"},
                     {},
                     {},
                     "ACCELERATE_MIXED_PRECISION is 'no' on machine 0 .* and 'bf16' on machine "
                     "1.*accelerate.error/machines-differ"},
        Disagreement{"tokens",
                     {},
                     {},
                     {"env", kToken0},
                     {"env", kToken1},
                     "another ACCELERATE_JOB_TOKEN than machine .*accelerate.error/token-differs"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(Machines, NeedTheSameTokenIfOneHasIt) {
  auto& first = start(0, {"--num_processes", "2"}, {"exit=0"}, {"env", kToken0});
  auto& stranger = start(1, {"--num_processes", "2"}, {"exit=0"});
  EXPECT_EQ(stranger.wait(20s), 2);
  EXPECT_NE(errors(1).find("this machine was given none"), std::string::npos) << errors(1);
  auto& second = start(1, {"--num_processes", "2"}, {"env=" + marks()}, {"env", kToken0});
  EXPECT_EQ(second.wait(20s), 0) << errors(2);
  EXPECT_EQ(first.wait(20s), 0) << errors(0);
  EXPECT_EQ("ACCELERATE_JOB_TOKEN=" + variable(1, "ACCELERATE_JOB_TOKEN"), kToken0);
}

TEST_F(Machines, OfTheSameNumberAreRefusedAndTheFirstStays) {
  const Words three = {"--num_machines", "3", "--num_processes", "3"};
  auto& first = start(0, three, {"exit=0"});
  auto& second = start(1, three, {"exit=0"});
  EXPECT_EQ(second.wait(300ms), -1);
  auto& twin = start(1, three, {"exit=0"});
  EXPECT_EQ(twin.wait(20s), 2);
  EXPECT_NE(errors(2).find("machine_rank 1 is taken by the machine"), std::string::npos)
      << errors(2);
  auto& third = start(2, three, {"exit=0"});
  for (auto* one : {&first, &second, &third}) EXPECT_EQ(one->wait(20s), 0);
}

TEST_F(Machines, ThatLeaveBeforeAllHaveComeAreNamed) {
  const Words three = {"--num_machines", "3", "--num_processes", "3"};
  auto& first = start(0, three, {"exit=0"});
  auto& second = start(1, three, {"exit=0"});
  EXPECT_EQ(second.wait(300ms), -1);
  second.signal(SIGTERM);
  EXPECT_EQ(first.wait(20s), 1);
  EXPECT_NE(errors(0).find("machine 1 ("), std::string::npos) << errors(0);
  EXPECT_NE(errors(0).find("left before all machines had come"), std::string::npos) << errors(0);
}

TEST_F(Hosts, MeetAtTheAddressOfTheFirstAndListenOnNoOther) {
  start_both({"mark=" + marks(), "await=" + (folder_.path() / "go").string()});
  ASSERT_TRUE(eventually([&] { return entries(marks()) == 2; }, 20s)) << errors(0) << errors(1);
  Words listening = hosts_->on(0);
  listening.insert(listening.end(), {"ss", "-ltnH"});
  const std::string sockets = run_program(listening).out;
  EXPECT_NE(sockets.find(address_ + ":29500"), std::string::npos) << sockets;
  EXPECT_EQ(sockets.find("0.0.0.0:29500"), std::string::npos) << sockets;
  EXPECT_EQ(sockets.find("*:29500"), std::string::npos) << sockets;
  folder_.write("go", "");
  for (auto& one : launchers_) EXPECT_EQ(one->wait(20s), 0);
}

TEST_F(Hosts, NoticeThatACableIsCut) {
  start_both({"mark=" + marks(), "sleep=60000"});
  ASSERT_TRUE(eventually([&] { return entries(marks()) == 2; }, 20s)) << errors(0) << errors(1);
  Words cut = hosts_->on(1);
  cut.insert(cut.end(), {"ip", "link", "set", NetworkNamespaces::cable(1, 0), "down"});
  ASSERT_EQ(run_program(cut).exit_code, 0);
  for (const int host : {0, 1}) EXPECT_EQ(launchers_[static_cast<std::size_t>(host)]->wait(20s), 1);
  EXPECT_NE(errors(0).find("machine 1"), std::string::npos) << errors(0);
  EXPECT_NE(errors(1).find("machine 0 (" + address_ + "): the store of the job there is gone"),
            std::string::npos)
      << errors(1);
}

}  // namespace
}  // namespace accelerate::testing
