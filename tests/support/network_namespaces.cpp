#include "tests/support/network_namespaces.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

#include "tests/support/support.h"

namespace accelerate::testing {
namespace {

// A process in a network namespace of its own that does nothing; -1 where that is not permitted.
pid_t start_keeper() {
  std::array<int, 2> ready{};
  if (pipe(ready.data()) != 0) return -1;
  const pid_t parent = getpid();
  const pid_t keeper = fork();
  if (keeper == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool made = getppid() == parent && unshare(CLONE_NEWNET) == 0;
    if (!made || write(ready[1], "x", 1) != 1) _exit(1);
    close(ready[0]);
    close(ready[1]);
    while (true) pause();
  }
  close(ready[1]);
  char byte = 0;
  const bool made = keeper > 0 && read(ready[0], &byte, 1) == 1;
  close(ready[0]);
  if (!made && keeper > 0) waitpid(keeper, nullptr, 0);
  return made ? keeper : -1;
}

void end_keeper(pid_t keeper) {
  kill(keeper, SIGKILL);
  waitpid(keeper, nullptr, 0);
}

}  // namespace

std::string NetworkNamespaces::why_not() {
  for (const char* tool : {"ip", "nft", "nsenter", "setpriv"}) {
    const RunResult found = run_program({"sh", "-c", std::string("command -v ") + tool});
    if (found.exit_code != 0) return std::string("there is no `") + tool + "` here";
  }
  const pid_t keeper = start_keeper();
  if (keeper < 0)
    return "this needs network namespaces, which this process may not make (it is not root)";
  const RunResult cable =
      run_program({"nsenter", "--target", std::to_string(keeper), "--net", "ip", "link", "add",
                   "cable0", "type", "veth", "peer", "name", "cable1"});
  end_keeper(keeper);
  return cable.exit_code == 0 ? "" : "this kernel has no virtual cables: " + cable.err;
}

NetworkNamespaces::NetworkNamespaces(int hosts) {
  for (int host = 0; host < hosts; ++host) {
    const pid_t keeper = start_keeper();
    if (keeper < 0) throw std::runtime_error("no network namespace can be made");
    keepers_.push_back(keeper);
    run_on(host, {"ip", "link", "set", "lo", "up"});
  }
  for (int from = 0; from < hosts; ++from) {
    for (int to = from + 1; to < hosts; ++to) connect(from, to);
  }
}

NetworkNamespaces::~NetworkNamespaces() {
  for (const pid_t keeper : keepers_) end_keeper(keeper);
}

std::string NetworkNamespaces::address(int host) {
  return "10.99.0." + std::to_string(host + 1);
}

void NetworkNamespaces::drop(int host, const std::string& what) const {
  run_on(host, {"nft",
                "add table inet wall; add chain inet wall in { type filter hook input priority 0; "
                "}; add rule inet wall in " +
                    what + " drop"});
}

std::string NetworkNamespaces::cable(int from, int to) {
  return "cable" + std::to_string(from) + "to" + std::to_string(to);
}

std::vector<std::string> NetworkNamespaces::on(int host) const {
  const pid_t keeper = keepers_.at(static_cast<std::size_t>(host));
  return {"setpriv", "--pdeathsig", "KILL", "nsenter", "--target", std::to_string(keeper), "--net"};
}

void NetworkNamespaces::run_on(int host, std::vector<std::string> command) const {
  std::vector<std::string> words = on(host);
  words.insert(words.end(), command.begin(), command.end());
  const RunResult result = run_program(words);
  if (result.exit_code == 0) return;
  throw std::runtime_error("on host " + std::to_string(host) + ": " + result.err);
}

void NetworkNamespaces::connect(int from, int to) const {
  run_on(from, {"ip", "link", "add", cable(from, to), "type", "veth", "peer", "name",
                cable(to, from), "netns", std::to_string(keepers_[static_cast<std::size_t>(to)])});
  give_address(from, to);
  give_address(to, from);
}

void NetworkNamespaces::give_address(int host, int other) const {
  const std::string name = cable(host, other);
  run_on(host, {"ip", "address", "add", address(host) + "/32", "dev", name});
  run_on(host, {"ip", "link", "set", name, "up"});
  run_on(host, {"ip", "route", "add", address(other) + "/32", "dev", name, "src", address(host)});
}

}  // namespace accelerate::testing
