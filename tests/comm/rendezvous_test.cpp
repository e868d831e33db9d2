// Ranks as processes: how they meet, where they listen, and what they say when they cannot.
#include "accelerate/comm/rendezvous.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <torch/types.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <regex>
#include <thread>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/comm/store_connection.h"
#include "tests/support/errors.h"
#include "tests/support/pairwise.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using testing::ProcessesOptions;
using testing::ProcessResult;
using testing::run_processes;

RendezvousOptions options_here() {
  RendezvousOptions options = rendezvous_options_from_env();
  options.timeout = std::chrono::seconds(env_int("TEST_TIMEOUT_S").value_or(20));
  return options;
}

RANK_MAIN(meet) {
  const auto comm = rendezvous(options_here());
  at::Tensor sum = torch::full({1}, comm->rank() + 1);
  comm->all_reduce(sum, ReduceOp::sum).wait();
  std::cout << "sum " << sum.item<int>() << std::endl;
  comm->barrier();
  return 0;
}

// What `ss` shows of this process's listening sockets, all of which must be on 127.0.0.1.
RANK_MAIN(listen) {
  const auto comm = rendezvous(options_here());
  const auto shown = testing::run_program({"ss", "-ltnpH"});
  const std::string mine = "pid=" + std::to_string(getpid()) + ",";
  for (std::size_t at = 0; at < shown.out.size();) {
    const auto end = shown.out.find('\n', at);
    const std::string line = shown.out.substr(at, end - at);
    if (line.find(mine) != std::string::npos) std::cout << line << "\n";
    at = end == std::string::npos ? shown.out.size() : end + 1;
  }
  comm->barrier();
  return shown.exit_code;
}

// The store's connection is found among the descriptors, also when it was made through IPv6.
RANK_MAIN(count_connections_to_the_store) {
  const auto options = options_here();
  const auto comm = rendezvous(options);
  std::cout << detail::notice_lost_host(options.master_addr, options.master_port, 1s) << " "
            << detail::notice_lost_host("127.0.0.2", options.master_port, 1s);
  comm->barrier();
  return 0;
}

TEST(Rendezvous, WatchesItsConnectionToTheStore) {
  for (const auto& rank : run_processes(2, "count_connections_to_the_store")) {
    EXPECT_EQ(rank.exit_code, 0) << rank.err;
    EXPECT_EQ(rank.out, "1 0");
  }
}

// Rank 0 hosts the store and dies while others wait for a third.
RANK_MAIN(lose_the_store) {
  const auto options = options_here();
  std::thread end([&] {
    if (options.rank != 0) return;
    std::this_thread::sleep_for(500ms);
    kill(getpid(), SIGKILL);
  });
  end.detach();
  try {
    const auto comm = rendezvous(options);
  } catch (const CommError& error) {
    std::cout << describe(error);
    return 0;
  }
  return 3;
}

TEST(Rendezvous, AStoreThatDiesIsASentenceWithoutLibTorchsFrames) {
  const auto ranks =
      run_processes(2, "lose_the_store", {.env = {{"WORLD_SIZE", "3"}, {"LOCAL_WORLD_SIZE", "3"}}});
  EXPECT_EQ(ranks[1].exit_code, 0) << ranks[1].err;
  EXPECT_NE(ranks[1].out.find("has crashed or is stopped"), std::string::npos) << ranks[1].out;
  EXPECT_EQ(ranks[1].err.find("frame #"), std::string::npos) << ranks[1].err;
}

// Rank 0 hosts the store and is gone when the other says goodbye: nothing is printed about that.
RANK_MAIN(leave_after_the_host) {
  const auto comm = rendezvous(options_here());
  comm->barrier();
  if (*env_int("RANK") == 0) return 0;
  while (!detail::host_has_left(options_here().master_addr, options_here().master_port)) {
    std::this_thread::sleep_for(1ms);
  }
  return 0;
}

TEST(Rendezvous, TheLastRankLeavesInSilence) {
  for (const std::string backend : {"gloo", "shared_memory"}) {
    // On a busy machine a rank that waits for the other says so.
    const ProcessesOptions options{
        .env = {{"ACCELERATE_COMM", backend}, {"ACCELERATE_LOG_LEVEL", "error"}}};
    for (const auto& rank : run_processes(2, "leave_after_the_host", options)) {
      EXPECT_EQ(rank.exit_code, 0) << backend;
      EXPECT_EQ(rank.err, "") << backend << ", rank " << rank.rank;
    }
  }
}

// Rank 1 ends as TEST_END says, before or after the group has met; the others expect a CommError.
RANK_MAIN(lose_a_rank) {
  const int rank = static_cast<int>(*env_int("RANK"));
  const auto end = *env_int("TEST_SIGNAL");
  const std::string phase = *env("TEST_PHASE");
  const auto die = [end] {
    if (end == 0) _exit(0);
    signal(static_cast<int>(end), SIG_DFL);
    raise(static_cast<int>(end));
  };
  if (rank == 1 && phase == "before") die();
  try {
    const auto comm = rendezvous(options_here());
    at::Tensor tensor = torch::ones({1 << 20});
    if (rank == 1 && phase == "after") die();
    for (int i = 0; i < 200; ++i) {
      if (rank == 1 && phase == "during" && i == 3) {
        auto work = comm->all_reduce(tensor, ReduceOp::sum);
        die();
      }
      comm->all_reduce(tensor, ReduceOp::sum).wait();
    }
  } catch (const CommError& error) {
    std::cout << error.what() << std::endl;
    return 42;
  }
  return 0;
}

RANK_MAIN(fail_to_meet) {
  try {
    (void)rendezvous(options_here());
  } catch (const Error& error) {
    std::cout << error.kind() << ": " << error.what() << std::endl;
    return 42;
  }
  return 0;
}

TEST(Rendezvous, ProcessesMeetAndReduce) {
  for (const auto& rank : run_processes(3, "meet")) {
    EXPECT_EQ(rank.exit_code, 0) << rank.err;
    EXPECT_EQ(rank.out, "sum 6\n");
  }
}

// Each group computes, one ends by an abort, and rank 1 comes late to one of them.
RANK_MAIN(meet_again_and_again) {
  const auto options = options_here();
  for (int round = 0; round < 5; ++round) {
    if (round == 3 && options.rank == 1) std::this_thread::sleep_for(100ms);
    const auto comm = rendezvous(options);
    at::Tensor sum = torch::full({1}, comm->rank() + round);
    comm->all_reduce(sum, ReduceOp::sum).wait();
    std::cout << sum.item<int>() << " ";
    if (round != 1) continue;
    try {
      comm->barrier();
      comm->abort("it has seen enough");
    } catch (const CommError&) {
      // Another was faster.
    }
  }
  return 0;
}

TEST(Rendezvous, OneProcessBeginsAndEndsGroupsAsOftenAsItLikes) {
  for (const std::string backend : {"gloo", "shared_memory"}) {
    const ProcessesOptions options{.env = {{"ACCELERATE_COMM", backend}}};
    for (const auto& rank : run_processes(3, "meet_again_and_again", options)) {
      EXPECT_EQ(rank.exit_code, 0) << backend << ": " << rank.err;
      EXPECT_EQ(rank.out, "3 6 9 12 15 ") << backend;
    }
  }
}

// Rank 0 has tried once in vain, so the ranks have not tried equally often when they meet.
RANK_MAIN(meet_after_one_came_in_vain) {
  auto options = options_here();
  for (int attempt = 0; attempt < 10; ++attempt) {
    options.timeout = options.rank == 0 && attempt == 0 ? 1ms : 5s;
    try {
      rendezvous(options)->barrier();
      std::cout << "met";
      return 0;
    } catch (const CommError& error) {
      std::cerr << error.what() << std::endl;
    }
  }
  return 1;
}

TEST(Rendezvous, ARankThatCameInVainMeetsTheOthersWhenItComesAgain) {
  for (const auto& rank : run_processes(2, "meet_after_one_came_in_vain")) {
    EXPECT_EQ(rank.exit_code, 0) << rank.err;
    EXPECT_EQ(rank.out, "met") << rank.err;
  }
}

TEST(Rendezvous, NothingListensButOnTheAddressThatWasAskedFor) {
  if (testing::run_program({"ss", "-V"}).exit_code != 0)
    GTEST_SKIP() << "ss (iproute2) is not installed";
  // Over shared memory only the store listens.
  const auto ranks = run_processes(2, "listen", {.env = {{"ACCELERATE_COMM", "gloo"}}});
  for (const auto& rank : ranks) {
    ASSERT_EQ(rank.exit_code, 0) << rank.err;
    ASSERT_FALSE(rank.out.empty());
    std::istringstream lines(rank.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_TRUE(std::regex_search(line, std::regex("^LISTEN +\\d+ +\\d+ +127\\.0\\.0\\.1:\\d+ ")))
          << line;
    }
  }
  EXPECT_NE(ranks[0].out, ranks[1].out);
}

struct Loss {
  const char* phase;
  int signal;  // 0: exits with code 0
};

class LostRank : public ::testing::TestWithParam<Loss> {};

// Only a rank that never comes is waited for until the timeout; the others need time to meet.
TEST_P(LostRank, IsAnErrorWithinTheTimeout) {
  const bool never_came = std::string(GetParam().phase) == "before";
  const auto start = std::chrono::steady_clock::now();
  const auto ranks = run_processes(2, "lose_a_rank",
                                   {.time_limit = 60s,
                                    .env = {{"TEST_PHASE", GetParam().phase},
                                            {"TEST_SIGNAL", std::to_string(GetParam().signal)},
                                            {"TEST_TIMEOUT_S", never_came ? "3" : "20"}}});
  if (never_came) {
    EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
  }
  EXPECT_FALSE(ranks[0].timed_out);
  EXPECT_EQ(ranks[0].exit_code, 42) << ranks[0].out << ranks[0].err;
  EXPECT_TRUE(std::regex_search(ranks[0].out, std::regex("rank 0 of 2"))) << ranks[0].out;
  EXPECT_EQ(ranks[1].exit_code, GetParam().signal == 0 ? 0 : 128 + GetParam().signal);
}

// A rank that never comes is missed in the same way whatever ended it, three seconds long.
bool is_one_of_many(const Loss& loss) {
  return std::string(loss.phase) == "before" && loss.signal != 0 && loss.signal != SIGKILL;
}

std::vector<Loss> losses() {
  std::vector<Loss> all;
  for (const char* phase : {"before", "during", "after"}) {
    for (const int signal :
         {0, SIGKILL, SIGTERM, SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGINT, SIGHUP}) {
      all.push_back({phase, signal});
    }
  }
  if (!testing::extended()) std::erase_if(all, is_one_of_many);
  return all;
}
INSTANTIATE_TEST_SUITE_P(PhaseAndSignal, LostRank, ::testing::ValuesIn(losses()),
                         [](const auto& info) {
                           return std::string(info.param.phase) + "_" +
                                  (info.param.signal == 0
                                       ? "exit0"
                                       : std::string("SIG") + sigabbrev_np(info.param.signal));
                         });

// A socket that listens on a port of 127.0.0.1 while alive.
class TakenPort {
 public:
  TakenPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), port_(testing::free_port()) {
    const int yes = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
  }
  ~TakenPort() { close(fd_); }
  [[nodiscard]] std::string port() const { return std::to_string(port_); }

 private:
  int fd_;
  int port_;
};

struct BadMeeting {
  std::map<std::string, std::string> env;
  std::string type, pattern;
};

TEST(Rendezvous, BadInputIsASentenceWithValueAndCure) {
  const TakenPort taken;
  const std::vector<BadMeeting> table = {
      {{{"MASTER_PORT", taken.port()}},
       "CommError",
       "127.0.0.1:" + taken.port() +
           ": the port is taken.*MASTER_PORT.* \\[accelerate.error/port-taken\\]"},
      {{{"MASTER_ADDR", "192.0.2.1"}}, "CommError", "192.0.2.1:.*not an address of this machine"},
      {{{"MASTER_ADDR", "no-such-host.invalid"}},
       "CommError",
       "MASTER_ADDR 'no-such-host.invalid' does not resolve"},
      {{{"RANK", "1"}, {"LOCAL_RANK", "1"}},
       "CommError",
       "nobody listened on 127.0.0.1:\\d+ within the timeout of 2 s"},
      // The kernel connects for a store whose process is stopped, too.
      {{{"RANK", "1"}, {"LOCAL_RANK", "1"}, {"MASTER_PORT", taken.port()}},
       "CommError",
       "rank 1 of 2 reached 127.0.0.1:" + taken.port() +
           ", but nobody answered there within the timeout of 2 s.*stopped"},
      {{},
       "CommError",
       "rank 0 of 2 was not finished within the timeout of 2 s. Rank 1 never joined"
       ".* \\[accelerate.error/ranks-do-not-meet\\]"},
      {{{"RANK", "2"}}, "ConfigError", "RANK is 2; allowed are 0 to 1"},
      {{{"RANK", ""}},
       "ConfigError",
       "WORLD_SIZE is 2, but RANK is not set.* \\[accelerate.error/launcher-variables\\]"},
      {{{"WORLD_SIZE", "0"}}, "ConfigError", "WORLD_SIZE is 0"},
      {{{"WORLD_SIZE", "two"}}, "ConfigError", "WORLD_SIZE is 'two', which is not an integer"},
      {{{"MASTER_PORT", "70000"}}, "ConfigError", "MASTER_PORT is 70000; allowed are 1 to 65535"},
      {{{"ACCELERATE_JOB_TOKEN", "secret"}},
       "ConfigError",
       "ACCELERATE_JOB_TOKEN has 6 characters; it must be 32 hexadecimal digits"},
      {{{"LOCAL_WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", ""}},
       "ConfigError",
       "MASTER_ADDR is not set"},
  };
  for (const auto& row : table) {
    ProcessesOptions options{
        .time_limit = 60s,
        .env = {{"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}, {"TEST_TIMEOUT_S", "2"}}};
    for (const auto& [key, value] : row.env) options.env[key] = value;
    const ProcessResult result = run_processes(1, "fail_to_meet", options).front();
    EXPECT_FALSE(result.timed_out) << row.pattern;
    EXPECT_EQ(result.exit_code, 42) << result.out << result.err;
    EXPECT_EQ(result.out.substr(0, result.out.find(':')), row.type) << result.out;
    EXPECT_TRUE(std::regex_search(result.out, std::regex(row.pattern))) << result.out;
    EXPECT_EQ(result.out.find("secret"), std::string::npos) << result.out;
    EXPECT_EQ(result.err.find("frame #"), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("[c10d]"), std::string::npos) << result.err;
  }
}

TEST(Rendezvous, WaitingIsReportedEveryFiveSeconds) {
  const auto result = run_processes(1, "fail_to_meet",
                                    {.time_limit = 60s,
                                     .env = {{"WORLD_SIZE", "2"},
                                             {"LOCAL_WORLD_SIZE", "2"},
                                             {"RANK", "1"},
                                             {"LOCAL_RANK", "1"},
                                             {"TEST_TIMEOUT_S", "12"}}})
                          .front();
  EXPECT_NE(result.err.find("rank 1 waits for rank 0 to listen on 127.0.0.1"), std::string::npos)
      << result.err;
}

TEST(RendezvousOptions, MpiLaunchersAreUnderstood) {
  const testing::ScopedEnv rank("OMPI_COMM_WORLD_RANK", "3"), size("OMPI_COMM_WORLD_SIZE", "4");
  const testing::ScopedEnv local("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
      local_size("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
  const testing::ScopedEnv address("MASTER_ADDR", "10.0.0.1");
  const auto options = rendezvous_options_from_env();
  EXPECT_EQ(options.rank, 3);
  EXPECT_EQ(options.world_size, 4);
  EXPECT_EQ(options.local_rank, 1);
  EXPECT_EQ(options.local_world_size, 2);
}

TEST(RendezvousOptions, TasksOfSrunAreRanks) {
  const testing::ScopedEnv tasks("SLURM_STEP_NUM_TASKS", "5"), task("SLURM_PROCID", "3");
  const testing::ScopedEnv place("SLURM_LOCALID", "1"), node("SLURM_NODEID", "1");
  const testing::ScopedEnv address("MASTER_ADDR", "10.0.0.1");
  const testing::ScopedEnv nodes("SLURM_STEP_TASKS_PER_NODE", "2(x2),1");
  const auto options = rendezvous_options_from_env();
  EXPECT_EQ(options.rank, 3);
  EXPECT_EQ(options.world_size, 5);
  EXPECT_EQ(options.local_rank, 1);
  EXPECT_EQ(options.local_world_size, 2);

  const testing::ScopedEnv rank("RANK", "0"), size("WORLD_SIZE", "2");  // A launcher below srun.
  EXPECT_EQ(rendezvous_options_from_env().world_size, 2);
  EXPECT_EQ(rendezvous_options_from_env().rank, 0);
}

TEST(RendezvousOptions, ABatchScriptOfSlurmIsAProcessOfItsOwn) {
  const testing::ScopedEnv tasks("SLURM_NTASKS", "4"), task("SLURM_PROCID", "0");
  EXPECT_EQ(rendezvous_options_from_env().world_size, 1);
}

TEST(RendezvousOptions, AnErrorNamesTheVariableThatIsSet) {
  const testing::ScopedEnv size("PMI_SIZE", "0");
  EXPECT_EQ(testing::message_of<ConfigError>([] { (void)rendezvous_options_from_env(); }),
            "the environment variable PMI_SIZE is 0; allowed are 1 to 2147483647 "
            "[accelerate.error/launcher-variables]");
}

}  // namespace
}  // namespace accelerate
