// Meetings of processes: ones that die, are stopped, have no descriptors left, are interrupted, or
// live in another network namespace.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <set>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "accelerate/base/error.h"
#include "accelerate/comm/shared_memory/local_socket.h"
#include "accelerate/comm/shared_memory/peers.h"
#include "tests/comm/shared_memory/meetings.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate::detail {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): "20s" reads well
using testing::run_processes;

constexpr int kNotPermitted = 77;
constexpr const char* kStorePath = "ACCELERATE_TEST_STORE";

int number_in(const char* variable) {
  return std::atoi(std::getenv(variable));
}

Hosts meet_over_tcp() {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(number_in("MASTER_PORT"));
  options.isServer = number_in("RANK") == 0;
  options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  auto hosts = meet_hosts(store, number_in("RANK"), number_in("WORLD_SIZE"), 20s);
  if (number_in("RANK") != 0) {
    store->set("met/" + std::to_string(number_in("RANK")), std::vector<std::uint8_t>{1});
    return hosts;
  }
  for (int rank = 1; rank < number_in("WORLD_SIZE"); ++rank) {  // the store leaves last
    store->wait({"met/" + std::to_string(rank)});
  }
  return hosts;
}

Hosts meet_over_a_file(int rank, int size) {
  const auto store = c10::make_intrusive<c10d::FileStore>(std::getenv(kStorePath), size);
  return meet_hosts(store, rank, size, 20s);
}

// Asks until `done` or 20 s are over.
bool eventually(const std::function<bool()>& done) {
  for (const Deadline deadline(20s); !deadline.is_over(); std::this_thread::sleep_for(1ms)) {
    if (done()) return true;
  }
  return false;
}

RANK_MAIN(peer_is_killed) {
  const auto hosts = meet_over_a_file(number_in("RANK"), 2);
  if (number_in("RANK") == 1) kill(getpid(), SIGKILL);
  const bool seen = eventually([&] { return !hosts.peers->is_alive(1); });
  std::cout << hosts.peers->describe(1) << std::endl;
  return seen && hosts.peers->is_alive(0) ? 0 : 1;
}

RANK_MAIN(peer_is_stopped) {
  const auto hosts = meet_over_a_file(number_in("RANK"), 2);
  if (number_in("RANK") == 1) return kill(getpid(), SIGSTOP);
  std::string last;
  eventually([&] {
    last = hosts.peers->describe(1);
    return last.ends_with("stopped");
  });
  std::cout << last << std::endl;
  const bool alive = hosts.peers->is_alive(1);
  kill(std::atoi(last.c_str() + std::strlen("process ")), SIGCONT);
  return alive ? 0 : 1;
}

// Runs `body` on `n` processes that have a file for a store.
std::vector<testing::ProcessResult> run_with_a_file(int n, const std::string& body) {
  const testing::TemporaryFolder folder;
  return run_processes(n, body, {.env = {{kStorePath, (folder.path() / "store").string()}}});
}

TEST(MeetProcesses, SeeAPeerThatIsKilled) {
  const auto results = run_with_a_file(2, "peer_is_killed");
  EXPECT_EQ(results[0].exit_code, 0) << results[0].err;
  EXPECT_EQ(results[1].exit_code, 128 + SIGKILL);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, ", which has died", results[0].out);
}

TEST(MeetProcesses, SayOfAPeerThatItIsStopped) {
  const auto results = run_with_a_file(2, "peer_is_stopped");
  EXPECT_EQ(results[0].exit_code, 0) << results[0].err;
  EXPECT_EQ(results[1].exit_code, 0) << results[1].err;
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, ", which is stopped", results[0].out);
}

// The limit under which `left` descriptors are free, whichever this process has inherited.
rlim_t limit_that_leaves(std::int64_t left) {
  int limit = 0;
  for (; left > 0; ++limit) left -= fcntl(limit, F_GETFD) < 0 ? 1 : 0;
  return static_cast<rlim_t>(limit);
}

// Rank 1 has only so many descriptors left.
RANK_MAIN(meet_with_few_descriptors) {
  if (number_in("RANK") == 1) {
    const auto most = limit_that_leaves(number_in("LEFT"));
    const rlimit limit{most, most};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  std::cout << meet_over_tcp().why_not << std::endl;
  return 0;
}

TEST(MeetProcesses, AgreeToDoWithoutWhenOneHasTooFewDescriptors) {
  std::set<bool> met;
  for (const int left : {4, 8, 20}) {
    const auto results =
        run_processes(2, "meet_with_few_descriptors", {.env = {{"LEFT", std::to_string(left)}}});
    for (const auto& result : results) {
      EXPECT_EQ(result.exit_code, 0) << left << ": " << result.err;
      EXPECT_EQ(result.out, results[0].out) << left;
    }
    met.insert(results[0].out == "\n");
    if (results[0].out == "\n") continue;
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "rank 1: ", results[0].out);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "ulimit -n", results[0].out);
  }
  EXPECT_EQ(met.size(), 2U);  // some of these were enough
}

// Every system call that waits or works long is interrupted again and again: those of the main
// thread, and once that takes no signals any more, those of the ranks.
RANK_MAIN(meet_under_a_timer) {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often{{0, 2000}, {0, 2000}};
  setitimer(ITIMER_REAL, &often, nullptr);
  const auto large = SharedArena::create()->allocate(std::size_t{64} << 20);
  std::atomic<int> met = 0;
  std::thread ranks([&met] {
    testing::meet_as_threads(4, [&met](int, const Hosts& hosts) {
      if (hosts.peers && hosts.peers->size() == 4) ++met;
    });
  });
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
  ranks.join();
  return met == 4 && large ? 0 : 1;
}

TEST(MeetProcesses, AreNotDisturbedBySignals) {
  const auto result = run_processes(1, "meet_under_a_timer").front();
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

// A child that meets as `rank` of `size` and then does `body`, whose value is its exit code.
pid_t start_rank(int rank, int size, const std::function<int(const Hosts&)>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    _exit(body(meet_over_a_file(rank, size)));
  } catch (const std::exception& error) {
    std::cerr << accelerate::describe(error) << std::endl;
  }
  _exit(1);
}

bool ended_well(const std::vector<pid_t>& children) {
  bool well = true;
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    well = well && status == 0;
  }
  return well;
}

// Even ranks here, odd ranks in a network namespace of their own.
RANK_MAIN(two_network_namespaces) {
  const auto check = [](const Hosts& hosts) {
    return hosts.host_of == std::vector<int>{0, 1, 0, 1} && hosts.peers->size() == 2 ? 0 : 1;
  };
  std::vector<pid_t> ranks = {start_rank(0, 4, check), start_rank(2, 4, check)};
  const bool permitted = unshare(CLONE_NEWNET) == 0;
  if (!permitted) {
    for (const pid_t rank : ranks) kill(rank, SIGKILL);
    return kNotPermitted;
  }
  ranks.push_back(start_rank(1, 4, check));
  ranks.push_back(start_rank(3, 4, check));
  return ended_well(ranks) ? 0 : 1;
}

TEST(MeetProcesses, OfTwoNetworkNamespacesAreTwoHosts) {
  const auto result = run_with_a_file(1, "two_network_namespaces").front();
  if (result.exit_code == kNotPermitted) GTEST_SKIP() << "no right to make a network namespace";
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

// In a network namespace of its own, where no other test's sockets are. Some ranks are killed
// before they have met, some while, some after.
RANK_MAIN(ranks_are_killed) {
  if (unshare(CLONE_NEWNET) != 0) return kNotPermitted;
  const std::string path = std::getenv(kStorePath);
  for (int delay_ms = 0; delay_ms < 20; delay_ms += 2) {
    setenv(kStorePath, (path + std::to_string(delay_ms)).c_str(), 1);
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.push_back(start_rank(rank, 3, [](const Hosts&) { return pause(); }));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    for (const pid_t rank : ranks) kill(rank, SIGKILL);
    ended_well(ranks);
  }
  return testing::abstract_sockets_of_ours();
}

TEST(MeetProcesses, LeaveNothingBehindWhenKilled) {
  const auto result = run_with_a_file(1, "ranks_are_killed").front();
  if (result.exit_code == kNotPermitted) GTEST_SKIP() << "no right to make a network namespace";
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

RANK_MAIN(meet_in_a_fork) {
  const auto arena = SharedArena::create();
  const pid_t child = fork();
  if (child == 0) {
    try {
      (void)meet_over_a_file(0, 1);
    } catch (const UsageError&) {
      _exit(5);
    }
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(MeetProcesses, AreRefusedInAForkOfOneThatHasSharedMemory) {
  EXPECT_EQ(run_with_a_file(1, "meet_in_a_fork").front().exit_code, 5);
}

}  // namespace
}  // namespace accelerate::detail
