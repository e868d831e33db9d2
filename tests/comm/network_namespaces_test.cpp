// Two hosts of two processes each, in network namespaces: what a cluster is to the library.
#include "tests/support/network_namespaces.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/types.h>

#include <iostream>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/comm/hierarchical_communicator.h"
#include "accelerate/comm/rendezvous.h"
#include "accelerate/comm/store_connection.h"
#include "tests/support/hosts.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using testing::NetworkNamespaces;

constexpr int kRanksAHost = 2;
constexpr int kPort = 29500;

std::vector<int> hosts_of_all() {
  std::vector<int> host_of;
  const int ranks = rendezvous_options_from_env().world_size;
  for (int rank = 0; rank < ranks; ++rank) host_of.push_back(rank / kRanksAHost);
  return host_of;
}

// The group that a user gets here.
std::shared_ptr<Communicator> default_group() {
  return rendezvous(rendezvous_options_from_env());
}

// A hierarchy all of Gloo.
std::shared_ptr<Communicator> gloo_hierarchy() {
  const auto options = rendezvous_options_from_env();
  return testing::hierarchy_over(rendezvous(options, {.backend = "gloo"}), hosts_of_all(),
                                 {.timeout = options.timeout, .address = *env("TEST_ADDRESS")});
}

// The same, but once all have met it notices within seconds that the other host is lost.
std::shared_ptr<Communicator> impatient_hierarchy() {
  const auto options = rendezvous_options_from_env();
  const auto flat = rendezvous(options, {.backend = "gloo"});
  flat->barrier();
  detail::notice_lost_host(options.master_addr, options.master_port, 3s);
  return testing::hierarchy_over(flat, hosts_of_all(),
                                 {.timeout = 3s, .address = *env("TEST_ADDRESS")});
}

// Prints "right" once per collective whose result is.
void print_results(Communicator& comm) {
  const int n = comm.size();
  const auto check = [](const at::Tensor& tensor, const at::Tensor& expected) {
    std::cout << (at::equal(tensor, expected) ? "right " : "wrong ");
  };
  for (const int64_t size : {int64_t{3}, int64_t{300'000}}) {
    at::Tensor sum = torch::full({size}, comm.rank() + 1.0);
    comm.all_reduce(sum, ReduceOp::sum).wait();
    check(sum, torch::full({size}, n * (n + 1) / 2.0));
    at::Tensor all = torch::empty({n, size});
    comm.all_gather(all, torch::full({size}, static_cast<double>(comm.rank()))).wait();
    check(all, torch::arange(n).to(at::kFloat).unsqueeze(1).expand({n, size}).contiguous());
    at::Tensor part = torch::empty({size});
    comm.reduce_scatter(part, all, ReduceOp::mean).wait();
    check(part, torch::full({size}, static_cast<double>(comm.rank())));
    comm.broadcast(part, n - 1).wait();
    check(part, torch::full({size}, n - 1.0));
  }
  comm.barrier();
}

RANK_MAIN(collectives_between_hosts) {
  const auto comm = default_group();
  if (comm->backend() != "shared_memory+gloo") std::cout << comm->backend() << " ";
  print_results(*comm);
  return 0;
}

RANK_MAIN(meet_behind_a_firewall) {
  try {
    (void)default_group();
  } catch (const CommError& error) {
    std::cout << describe(error);
  }
  return 0;
}

RANK_MAIN(hierarchy_between_hosts) {
  print_results(*gloo_hierarchy());
  return 0;
}

void print_comm_error(Communicator& comm) {
  try {
    for (int i = 0; i < 1000; ++i) {
      at::Tensor tensor = torch::ones({5000});
      comm.all_reduce(tensor, ReduceOp::sum).wait();
    }
  } catch (const CommError& error) {
    std::cout << describe(error);
  }
}

RANK_MAIN(lose_a_rank_of_another_namespace) {
  const auto comm = gloo_hierarchy();
  comm->barrier();
  if (comm->rank() == 3) raise(SIGKILL);
  print_comm_error(*comm);
  return 0;
}

RANK_MAIN(lose_the_cable) {
  const auto comm = impatient_hierarchy();
  comm->barrier();
  if (comm->rank() == 3) {
    const auto cut =
        testing::run_program({"ip", "link", "set", NetworkNamespaces::cable(1, 0), "down"});
    if (cut.exit_code != 0) return 3;
  }
  print_comm_error(*comm);
  std::cout << std::flush;
  std::_Exit(0);  // goodbyes would wait for a store that nobody reaches any more
}

class Namespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = NetworkNamespaces::why_not();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  static std::vector<testing::ProcessResult> run(int hosts, const std::string& name,
                                                 const std::string& timeout_s = "60") {
    return run(NetworkNamespaces(hosts), hosts, name, timeout_s);
  }

  static std::vector<testing::ProcessResult> run(const NetworkNamespaces& namespaces, int hosts,
                                                 const std::string& name,
                                                 const std::string& timeout_s) {
    testing::ProcessesOptions options;
    options.env = {{"MASTER_ADDR", NetworkNamespaces::address(0)},
                   {"MASTER_PORT", std::to_string(kPort)},
                   {"LOCAL_WORLD_SIZE", std::to_string(kRanksAHost)},
                   {"ACCELERATE_TIMEOUT", timeout_s}};
    options.place = [&](int rank, auto& env) {
      env["LOCAL_RANK"] = std::to_string(rank % kRanksAHost);
      env["TEST_ADDRESS"] = NetworkNamespaces::address(rank / kRanksAHost);
      return namespaces.on(rank / kRanksAHost);
    };
    return testing::run_processes(hosts * kRanksAHost, name, options);
  }

  static void expect_right(const std::vector<testing::ProcessResult>& ranks) {
    for (const auto& rank : ranks) {
      EXPECT_EQ(rank.exit_code, 0) << rank.err;
      EXPECT_EQ(rank.out, "right right right right right right right right ") << rank.rank;
    }
  }
};

TEST_F(Namespaces, AreReachedFromEachOtherAndFromNowhereElse) {
  const NetworkNamespaces namespaces(3);
  const auto listens = [&](int host) {
    auto words = namespaces.on(host);
    words.insert(words.end(), {"ip", "-brief", "address", "show"});
    return testing::run_program(words).out;
  };
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "10.99.0.3/32", listens(2));
  EXPECT_PRED_FORMAT2(::testing::IsNotSubstring, "10.99.0.1/32", listens(2));
  const auto here = testing::run_program({"ip", "-brief", "address", "show"});
  EXPECT_PRED_FORMAT2(::testing::IsNotSubstring, "10.99.0.", here.out);
}

TEST_F(Namespaces, RanksOfTwoHostsMeetAndCommunicate) {
  expect_right(run(2, "collectives_between_hosts"));
}

TEST_F(Namespaces, AHierarchyOfGlooWorksBetweenTwoHosts) {
  expect_right(run(2, "hierarchy_between_hosts"));
}

TEST_F(Namespaces, ARankKilledOnAnotherHostIsNamed) {
  const auto ranks = run(2, "lose_a_rank_of_another_namespace");
  EXPECT_EQ(ranks[3].exit_code, 128 + SIGKILL);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks[rank].exit_code, 0) << ranks[rank].err;
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "inside host 1", ranks[rank].out);
  }
}

// The port of the store is open, the ports that ranks choose are not.
TEST_F(Namespaces, AFirewallThatDropsWhatRanksSendEachOtherIsNamed) {
  const NetworkNamespaces namespaces(2);
  const std::string begins = "iifname != lo tcp flags & (syn|ack) == syn tcp dport != ";
  for (const int host : {0, 1}) namespaces.drop(host, begins + std::to_string(kPort));
  const auto ranks = run(namespaces, 2, "meet_behind_a_firewall", "6");
  int unanswered = 0;
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank.exit_code, 0) << rank.err;
    EXPECT_FALSE(rank.timed_out);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "took longer than the timeout of 6 s", rank.out);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "10.99.0.", rank.out);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "Does a firewall drop", rank.out);
    const bool connects = rank.out.find("Nothing answers at 10.99.0.") != std::string::npos;
    const bool says_so = rank.err.find("has no answer from 10.99.0.") != std::string::npos;
    EXPECT_EQ(connects, says_so) << rank.out << rank.err;
    unanswered += connects ? 1 : 0;
  }
  EXPECT_GE(unanswered, 2);  // Of each pair one rank connects.
}

TEST_F(Namespaces, ACutCableIsAnErrorWithinTheTimeout) {
  const auto ranks = run(2, "lose_the_cable", "30");
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank.exit_code, 0) << rank.err;
    EXPECT_FALSE(rank.timed_out);
    const bool leads = rank.rank % kRanksAHost == 0;
    EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                        leads ? "between the hosts" : "a collective failed inside host", rank.out);
  }
}

}  // namespace
}  // namespace accelerate
