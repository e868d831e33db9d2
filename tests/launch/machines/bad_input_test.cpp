// What users and networks do wrong when several machines meet: each machine ends with an error that
// names machine and address, and within its limit.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <regex>
#include <thread>

#include "accelerate/base/tcp.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/launch/machines/job_keys.h"
#include "accelerate/launch/machines/job_notes.h"
#include "accelerate/launch/machines/store_client.h"
#include "accelerate/launch/machines/store_server.h"
#include "tests/launch/machines/machines.h"

namespace accelerate::testing {
namespace {

using namespace std::chrono_literals;
using Words = Machines::Words;

constexpr auto kLimit = 30s;  // Of the test; the machines' own is shorter.
constexpr int kConfigError = 2, kLaunchError = 1;
const Words kTwoRanks = {"--num_processes", "2"};
const Words kInAHurry = {"--num_processes", "2", "--rdzv_conf", "join_timeout=2"};

class BadMachines : public Machines {
 protected:
  // Launcher `number`, in the order of starts, ends with `code` and says what matches `pattern`.
  void expect_end(int number, int code, const std::string& pattern) {
    EXPECT_EQ(launchers_[static_cast<std::size_t>(number)]->wait(kLimit), code) << errors(number);
    EXPECT_TRUE(std::regex_search(errors(number), std::regex(pattern))) << errors(number);
  }
  [[nodiscard]] std::string at() const { return address_ + ":" + std::to_string(port_); }
};

TEST_F(BadMachines, WithTheSameNumberAndNoMachine0GiveUp) {
  for (int i = 0; i < 2; ++i) start(1, kInAHurry, {"exit=0"});
  for (int i = 0; i < 2; ++i)
    expect_end(i, kLaunchError,
               "machine 0 did not answer at " + at() +
                   " within 2 s.* \\[accelerate.error/machines-do-not-meet\\]");
}

TEST_F(BadMachines, WithANumberBeyondTheCountAreRefused) {
  start(0, kInAHurry, {"exit=0"});
  start(2, kInAHurry, {"exit=0"});
  expect_end(1, kConfigError, "machine_rank");
  expect_end(0, kLaunchError, "machine 1 of 2 did not come to " + at() + " within 2 s");
}

// Offsets of a clock change nothing: limits are measured by clocks that only go forward.
TEST_F(BadMachines, WithClocksThatAreHoursApartAreOneJob) {
  ASSERT_EQ(run_program({"faketime", "-f", "+5h", "true"}).exit_code, 0)
      << "scripts/setup installs faketime";
  start(0, kTwoRanks, {"env=" + marks()});
  start(1, kTwoRanks, {"env=" + marks()}, {"faketime", "-f", "+5h"});
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(launchers_[static_cast<std::size_t>(i)]->wait(kLimit), 0) << errors(i);
  EXPECT_EQ(variable(1, "WORLD_SIZE"), "2");
}

TEST_F(BadMachines, WithOtherProgramsAreRefused) {
  start(0, kTwoRanks, {"exit=0"});
  program_ = folder_.path() / "evaluate";
  std::filesystem::create_symlink(probe_program(), program_);
  start(1, kTwoRanks, {"exit=0"});
  for (int i = 0; i < 2; ++i)
    expect_end(i, kConfigError,
               "the program is 'launch_probe' on machine 0 \\(.+\\) and 'evaluate' on machine 1");
}

TEST_F(BadMachines, MayHaveOtherProgramsIfTheirRolesDiffer) {
  Words flags = kTwoRanks;
  flags.insert(flags.end(), {"--role", "trainer"});
  start(0, flags, {"exit=0"});
  program_ = folder_.path() / "evaluate";
  std::filesystem::create_symlink(probe_program(), program_);
  flags.back() = "judge";
  start(1, flags, {"exit=0"});
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(launchers_[static_cast<std::size_t>(i)]->wait(kLimit), 0) << errors(i);
}

// A path to data may well differ.
TEST_F(BadMachines, WithOtherArgumentsAreTold) {
  start(0, kTwoRanks, {"exit=0"});
  start(1, kTwoRanks, {"sleep=1", "exit=0"});
  expect_end(0, 0, "the program has other arguments on machine 1 \\(.+\\) than on machine 0");
  EXPECT_EQ(launchers_[1]->wait(kLimit), 0) << errors(1);
}

// --- Launchers of another version --------------------------------------------------------------

TEST_F(BadMachines, OfAnotherVersionAreRefused) {
  start(0, kTwoRanks, {"exit=0"});
  ASSERT_TRUE(is_hosted());
  int error = 0;
  detail::StoreClient other(connect_within(*resolve_host("127.0.0.1", port_).addresses, 5s, error),
                            5s);
  const auto job = detail::parse_json(other.get(detail::kJob));
  const detail::Seal seal("", detail::text_in(job, "challenge"));
  detail::MachineCard card;
  card.number = 1;
  card.host = "node-b";
  card.machines = "2";
  card.version = "0.0.1";
  other.set(detail::card_key(1), seal.close(card.text()));
  other.set(detail::role_key(1), R"({"role": "default", "rank": 1, "local_world_size": 1})");
  const std::string both =
      "the version of accelerate.cpp is .+ on machine 0 \\(.+\\) and 0.0.1 on machine 1 "
      "\\(node-b\\)";
  ASSERT_TRUE(other.wait({detail::round_key(0)}, kLimit));
  const auto told = seal.open(other.get(detail::round_key(0)));
  ASSERT_TRUE(told);
  EXPECT_TRUE(std::regex_search(detail::Round::parse(*told).error, std::regex(both))) << *told;
  expect_end(0, kConfigError, both);
}

// A thread that listens where machine 0 would, and does `serve` until the test ends.
class Impostor {
 public:
  explicit Impostor(const std::function<void(Listening, int owner)>& serve) {
    Listening listener = listen_on(*resolve_host("127.0.0.1", 0).addresses);
    port_ = listener.port;
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
    owner_ = Descriptor(ends[1]);
    thread_ =
        std::thread([serve, socket = std::move(listener), end = Descriptor(ends[0])]() mutable {
          serve(std::move(socket), end.get());
        });
  }
  ~Impostor() {
    owner_.close();
    thread_.join();
  }
  Impostor(const Impostor&) = delete;
  Impostor& operator=(const Impostor&) = delete;

  [[nodiscard]] int port() const { return port_; }

 private:
  int port_ = 0;
  Descriptor owner_;
  std::thread thread_;
};

TEST_F(BadMachines, WhoseMachine0SpeaksAnotherProtocolAreRefused) {
  const Impostor newer([](Listening listener, int owner) {
    const std::string job = R"({"protocol": )" + std::to_string(detail::kProtocol + 1) +
                            R"(, "host": "node-a", "challenge": ""})";
    detail::StoreServer(std::move(listener.socket), {{"/" + detail::kJob, job}}).run(owner);
  });
  port_ = newer.port();
  start(1, kInAHurry, {"exit=0"});
  expect_end(0, kConfigError, "machine 0 \\(node-a\\) runs another version of accelerate.cpp");
}

// --- Ports that answer as something else -------------------------------------------------------

struct Answer {
  const char* name;
  const char* first;  // Sent at once.
  bool floods;        // Sends without an end.
  bool closes;
  const char* error;
};

void PrintTo(const Answer& row, std::ostream* out) {
  *out << row.name;
}

bool has_ended(int owner) {
  pollfd one{owner, POLLIN, 0};
  return poll(&one, 1, 20) != 0;
}

void answer(const Answer& row, const Listening& listener, int owner) {
  std::vector<Descriptor> held;
  const std::string much(1 << 16, 'x');
  while (!has_ended(owner)) {
    Descriptor client(accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.valid()) continue;
    std::string_view left = row.first;
    (void)!::send(client.get(), left.data(), left.size(), MSG_NOSIGNAL);
    while (row.floods && ::send(client.get(), much.data(), much.size(), MSG_NOSIGNAL) > 0) {
    }
    if (!row.closes) held.push_back(std::move(client));
  }
}

class MeetAnotherProgram : public BadMachines, public ::testing::WithParamInterface<Answer> {};

TEST_P(MeetAnotherProgram, AtTheAddressOfMachine0) {
  const Impostor other([](Listening listener, int owner) {
    const int flags = fcntl(listener.socket.get(), F_GETFL);
    fcntl(listener.socket.get(), F_SETFL, flags | O_NONBLOCK);
    answer(GetParam(), listener, owner);
  });
  port_ = other.port();
  start(1, kInAHurry, {"exit=0"});
  expect_end(0, kLaunchError,
             "machine 0 is expected at " + at() + ", but " + GetParam().error +
                 ". Does another program use this port");
}

constexpr const char* kNoStore = "what answered there is no store of c10d";
INSTANTIATE_TEST_SUITE_P(
    All, MeetAnotherProgram,
    ::testing::Values(Answer{"http", "HTTP/1.1 400 Bad Request\r\n\r\n", false, true, kNoStore},
                      Answer{"ssh", "SSH-2.0-OpenSSH_9.2\r\n", false, false, kNoStore},
                      Answer{"silence", "", false, false, "it gave no answer for 2 s"},
                      Answer{"closed", "", false, true,
                             "(it closed the connection|the connection to it is lost: .+)"},
                      Answer{"flood", "", true, false, kNoStore}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(BadMachines, MeetThoughStrangersHoldConnectionsAndSendGarbage) {
  start(0, kTwoRanks, {"exit=0"});
  ASSERT_TRUE(is_hosted());
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 50; ++i) {
    int error = 0;
    strangers.push_back(connect_within(*resolve_host("127.0.0.1", port_).addresses, 5s, error));
    const std::string garbage(static_cast<std::size_t>(i) * 100, static_cast<char>(i));
    (void)!::send(strangers.back().get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  }
  start(1, kTwoRanks, {"exit=0"});
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(launchers_[static_cast<std::size_t>(i)]->wait(kLimit), 0) << errors(i);
}

// --- Networks ----------------------------------------------------------------------------------

class BadNetworks : public Hosts {
 protected:
  void run_on(int host, const Words& command) {
    Words words = hosts_->on(host);
    words.insert(words.end(), command.begin(), command.end());
    const RunResult result = run_program(words);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  // The host lets no packet in for which `what` is true.
  void drop(int host, const std::string& what) {
    run_on(host, {"nft",
                  "add table inet wall; add chain inet wall in { type filter hook input "
                  "priority 0; }; add rule inet wall in " +
                      what + " drop"});
  }
  // Words before a command that finds `name` under `address` in /etc/hosts.
  [[nodiscard]] Words knowing(int host, const std::string& address, const std::string& name) {
    const std::string file = "hosts" + std::to_string(host);
    folder_.write(file, "127.0.0.1 localhost\n" + address + " " + name + "\n");
    Words words = hosts_->on(host);
    const std::string mount = "mount --bind " + (folder_.path() / file).string() + " /etc/hosts";
    words.insert(words.end(), {"unshare", "--mount", "sh", "-c", mount + " && exec \"$@\"", "sh"});
    return words;
  }
  void expect_end(int number, int code, const std::string& pattern) {
    EXPECT_EQ(launchers_[static_cast<std::size_t>(number)]->wait(kLimit), code) << errors(number);
    EXPECT_TRUE(std::regex_search(errors(number), std::regex(pattern))) << errors(number);
  }
};

const std::string kAddress0 = "10\\.99\\.0\\.1";

TEST_F(BadNetworks, TwoMachinesThatBothAreMachine0) {
  for (const int host : {0, 1}) start(0, kInAHurry, {"exit=0"}, hosts_->on(host));
  expect_end(1, kConfigError,
             "'" + kAddress0 + "', which is not an address of this machine, yet machine_rank is 0");
  expect_end(0, kLaunchError, "machine 1 of 2 did not come to " + kAddress0 + ":29500 within 2 s");
}

// Debian writes a machine's own name as 127.0.1.1 into its /etc/hosts.
TEST_F(BadNetworks, ANameThatMachine0TakesForItsLoopback) {
  address_ = "node0";
  start(0, kInAHurry, {"exit=0"}, knowing(0, "127.0.1.1", "node0"));
  start(1, kInAHurry, {"exit=0"}, knowing(1, NetworkNamespaces::address(0), "node0"));
  expect_end(0, kLaunchError,
             "machine 1 of 2 did not come to node0:29500 \\(127.0.1.1\\) within 2 s.+ node0 is "
             "127.0.1.1 on this machine, which no other machine can reach");
  expect_end(1, kLaunchError,
             "machine 0 did not answer at node0:29500 \\(" + kAddress0 +
                 "\\) within 2 s "
                 "\\(Connection refused\\)");
}

TEST_F(BadNetworks, ANameThatLeadsSomewhereElse) {
  address_ = "node0";
  start(0, kInAHurry, {"exit=0"}, knowing(0, NetworkNamespaces::address(0), "node0"));
  start(1, kInAHurry, {"exit=0"}, knowing(1, NetworkNamespaces::address(1), "node0"));
  expect_end(0, kLaunchError,
             "machine 1 of 2 did not come to node0:29500 \\(" + kAddress0 + "\\) within 2 s");
  expect_end(1, kLaunchError, "machine 0 did not answer at node0:29500 \\(10.99.0.2\\) within 2 s");
}

TEST_F(BadNetworks, ANameThatOneMachineDoesNotKnow) {
  address_ = "node0";
  start(0, kInAHurry, {"exit=0"}, knowing(0, NetworkNamespaces::address(0), "node0"));
  start(1, kInAHurry, {"exit=0"}, knowing(1, NetworkNamespaces::address(0), "node1"));
  expect_end(0, kLaunchError, "machine 1 of 2 did not come to node0:29500");
  expect_end(1, kLaunchError,
             "machine 0 did not answer at node0:29500 within 2 s \\(Temporary failure in name");
}

// Hosts without any IPv4.
TEST_F(BadNetworks, IPv6AloneWillDo) {
  for (const int host : {0, 1}) {
    const std::string cable = NetworkNamespaces::cable(host, 1 - host);
    run_on(host, {"ip", "-4", "address", "flush", "dev", cable});
    run_on(host, {"ip", "-4", "address", "flush", "dev", "lo"});
    run_on(host, {"ip", "-6", "address", "add", "fd99::" + std::to_string(host + 1) + "/64", "dev",
                  cable, "nodad"});
  }
  address_ = "fd99::1";
  start(1, kInAHurry, {"exit=0"}, hosts_->on(1));
  expect_end(0, kLaunchError, "machine 0 did not answer at \\[fd99::1\\]:29500 within 2 s");
  for (const int host : {0, 1}) start(host, kTwoRanks, {"env=" + marks()}, hosts_->on(host));
  for (const int number : {1, 2})
    EXPECT_EQ(launchers_[static_cast<std::size_t>(number)]->wait(kLimit), 0) << errors(number);
  EXPECT_EQ(variable(1, "MASTER_ADDR"), "fd99::1");
}

TEST_F(BadNetworks, AFirewallThatDrops) {
  drop(0, "iifname != lo tcp dport 29500");
  for (const int host : {0, 1}) start(host, kInAHurry, {"exit=0"}, hosts_->on(host));
  expect_end(0, kLaunchError,
             "machine 1 of 2 did not come to " + kAddress0 + ":29500 within 2 s.+firewall");
  expect_end(1, kLaunchError,
             "machine 0 did not answer at " + kAddress0 +
                 ":29500 within 2 s "
                 "\\(Connection timed out\\).+firewall");
}

// Packets get through one way alone: the kernels of both hosts must give up.
TEST_F(BadNetworks, ALinkThatIsHalfOpen) {
  start_both({"mark=" + marks(), "sleep=60000"});
  ASSERT_TRUE(eventually([&] { return entries(marks()) == 2; }, kLimit)) << errors(0) << errors(1);
  drop(1, "ip saddr 10.99.0.1");
  expect_end(0, kLaunchError,
             "machine 1 \\(.+\\): its launcher was killed, or the machine is lost");
  expect_end(1, kLaunchError,
             "machine 0 \\(" + kAddress0 + "\\): the store of the job there is gone");
}

}  // namespace
}  // namespace accelerate::testing
