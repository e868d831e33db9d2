// Thousands of ranks, each a thread, four on each pretended machine, that meet over a store in
// memory: how many queries each sends. docs/costs.md has the table;
// ACCELERATE_WRITE_PAGES=1 build/dev/tests/test_comm --gtest_filter='RankScale.*' writes it.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <torch/types.h>

#include <array>
#include <barrier>
#include <chrono>
#include <functional>
#include <iomanip>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "accelerate/comm/common_terms.h"
#include "accelerate/comm/diagnosis.h"
#include "accelerate/comm/sealed_store.h"
#include "accelerate/comm/selection.h"
#include "accelerate/comm/shared_memory/peers.h"
#include "accelerate/comm/shared_memory/process_handle.h"
#include "tests/comm/counting_store.h"
#include "tests/support/counted_rows.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using StorePtr = c10::intrusive_ptr<c10d::Store>;
using testing::CountingStore;

constexpr int kRanksOfMachine = 4;
constexpr auto kLimit = 300s;

// Returns how many descriptors this process may have open, after asking for more.
rlim_t open_more_files() {
  constexpr rlim_t kMany = 100'000;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit many{std::max(limit.rlim_max, kMany), std::max(limit.rlim_max, kMany)};
  const rlimit allowed{limit.rlim_max, limit.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &many) != 0) setrlimit(RLIMIT_NOFILE, &allowed);
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

// Three kinds of ranks: rank 0, the first of another host, and the others.
enum Kind { rank_0, first_of_host, other, kinds };

Kind kind_of(int rank) {
  if (rank == 0) return rank_0;
  return rank % kRanksOfMachine == 0 ? first_of_host : other;
}

// The queries of each kind of ranks in each step.
struct Counted {
  std::map<std::string, std::array<int, kinds>> queries;
  int most_keys = 0;  // Of a query of a rank that is not rank 0.
  // Whether a rank waited so long that it asked who was missing.
  bool is_late = false;
};

struct Rank {
  StorePtr store;
  int rank;
  int size;

  [[nodiscard]] StorePtr part(const char* name) const {
    return c10::make_intrusive<c10d::PrefixStore>(name, store);
  }
  [[nodiscard]] detail::SelectionOptions options() const {
    return {.rank = rank, .size = size, .times = kLimit, .address = "127.0.0.1", .wish = ""};
  }
};

using Steps = std::vector<std::pair<std::string, std::function<void(const Rank&)>>>;

// Takes the steps on all ranks, and counts. All ranks of a kind must have sent as many queries.
Counted count(int size, const Steps& steps) {
  const StorePtr shared = c10::make_intrusive<c10d::HashStore>();
  Counted counted;
  std::mutex mutex;
  std::barrier all(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const detail::PretendedMachine machine("machine " + std::to_string(rank / kRanksOfMachine));
      const auto mine = c10::make_intrusive<CountingStore>(shared);
      const Rank self{c10::make_intrusive<detail::SealedStore>(mine, ChecksumKey{}), rank, size};
      for (const auto& [name, step] : steps) {
        const int before = mine->queries();
        const auto begin = std::chrono::steady_clock::now();
        step(self);
        const int queries = mine->queries() - before;
        const std::lock_guard lock(mutex);
        if (std::chrono::steady_clock::now() - begin > 4s) counted.is_late = true;
        if (counted.is_late) continue;
        int& known = counted.queries[name][kind_of(rank)];
        if (known == 0) known = queries;
        EXPECT_EQ(queries, known) << name << ", rank " << rank;
      }
      all.arrive_and_wait();
      const std::lock_guard lock(mutex);
      if (rank != 0) counted.most_keys = std::max(counted.most_keys, mine->most_keys());
    });
  }
  for (auto& thread : threads) thread.join();
  return counted;
}

// Counts until no rank was late.
Counted count_in_time(int size, const Steps& steps) {
  for (int tries = 0; tries < 5; ++tries) {
    Counted counted = count(size, steps);
    if (!counted.is_late) return counted;
  }
  throw std::runtime_error("ranks waited for more than four seconds in each of five meetings");
}

std::vector<int> expected_hosts(int size) {
  std::vector<int> hosts;
  for (int rank = 0; rank < size; ++rank) hosts.push_back(rank / kRanksOfMachine);
  return hosts;
}

// The steps by which ranks meet, before they are connected.
Steps meeting() {
  return {
      {"compare terms",
       [](const Rank& self) {
         detail::require_common_terms(self.part("selection"), self.options());
       }},
      {"find the ranks of the host",
       [](const Rank& self) {
         const auto hosts =
             detail::meet_hosts(self.part("hosts"), self.rank, self.size, GroupTimes(kLimit));
         EXPECT_EQ(hosts.host_of, expected_hosts(self.size)) << hosts.why_not;
       }},
      {"join a group of all",
       [](const Rank& self) {
         detail::GroupDiagnosis(self.part("flat"), self.rank, self.size, kLimit)
             .wait_for_everyone_to_join(Deadline(kLimit));
       }},
  };
}

std::vector<int> sizes() {
  std::vector<int> all = {16, 128, 1024};
  const auto most = open_more_files();
  // A rank has two descriptors of each rank of its host, and a few of its own.
  std::erase_if(all, [&](int ranks) {
    return static_cast<rlim_t>(ranks) * (2 * kRanksOfMachine + 8) > most;
  });
  return all;
}

void expect_equal_but_for_rank_0(const Counted& a, const Counted& b) {
  for (const auto& [step, queries] : a.queries) {
    EXPECT_EQ(b.queries.at(step)[first_of_host], queries[first_of_host]) << step;
    EXPECT_EQ(b.queries.at(step)[other], queries[other]) << step;
  }
}

TEST(RankScale, ARankSendsAsManyQueriesInAMeetingOfAnySize) {
  std::map<int, Counted> of;
  for (const int size : sizes()) {
    SCOPED_TRACE(size);
    of[size] = count_in_time(size, meeting());
    expect_equal_but_for_rank_0(of.begin()->second, of[size]);
    EXPECT_LE(of[size].most_keys, kRanksOfMachine);
  }
  if (!of.contains(1024)) GTEST_SKIP() << "too few file descriptors (RLIMIT_NOFILE)";
  std::string rows;
  for (const auto& [step, function] : meeting()) {
    rows += "| " + step;
    for (const int queries : {of.at(16).queries[step][other], of.at(128).queries[step][rank_0],
                              of.at(1024).queries[step][rank_0]}) {
      rows += " | " + std::to_string(queries);
    }
    rows += " |\n";
    EXPECT_EQ(of.at(16).queries[step][other], of.at(16).queries[step][first_of_host]);
  }
  testing::expect_counted_rows("RankScale", rows);
}

}  // namespace
}  // namespace accelerate
