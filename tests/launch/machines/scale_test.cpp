// Thousands of launchers, each a thread, of one job over the real store: how many messages each
// sends. docs/costs.md has the table;
// ACCELERATE_WRITE_PAGES=1 build/dev/tests/test_launch --gtest_filter='Scale.*' writes it.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "accelerate/launch/machines/machine_group.h"
#include "accelerate/launch/port.h"
#include "tests/launch/support.h"
#include "tests/support/counted_rows.h"

namespace accelerate::testing {
namespace {

using namespace std::chrono_literals;

// Queries of one launcher to the store, step by step.
struct Queries {
  std::int64_t meeting = 0, again = 0, end = 0;
};

struct Counted {
  Queries launcher;  // The fewest of those that do not hold the store: nobody is late for them.
  Queries leader;
};

// The smallest number of files that a process may open, or more where that is allowed.
void open_more_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int files_allowed() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1'000'000));
}

// Waits for the end of the round, as launch() does while ranks run.
EndElsewhere await_end(MachineGroup& group) {
  for (;;) {
    pollfd one{group.fd(), POLLIN, 0};
    poll(&one, 1, -1);
    if (auto end = group.news()) return *end;
  }
}

// Meets, loses a rank of machine 1, starts all ranks again, and ends.
Queries take_part(const MachineOptions& options, std::barrier<>& all_have_met) {
  MachineGroup group(options);
  Queries queries{.meeting = group.queries()};
  all_have_met.arrive_and_wait();
  LaunchResult failed;
  if (group.meeting().machine == 1) {
    RankResult& rank = failed.ranks.emplace_back();
    rank.rank = 1;
    rank.exit_code = 3;
    failed.first_failure = 1;
    group.tell({.kind = EndElsewhere::Kind::failed,
                .machine = 0,
                .host = {},
                .what = "rank 1 failed",
                .exit_code = 3});
  } else {
    failed.elsewhere = await_end(group);
  }
  const std::int64_t before = group.queries();
  EXPECT_TRUE(group.begin_again(failed));
  EXPECT_EQ(group.meeting().restarts, 1);
  EXPECT_EQ(group.meeting().ranks_of_all, 4 * options.machines);
  queries.again = group.queries() - before;
  all_have_met.arrive_and_wait();
  LaunchResult done;
  const std::int64_t last = group.queries();
  EXPECT_FALSE(group.begin_again(done));
  queries.end = group.queries() - last;
  all_have_met.arrive_and_wait();  // Before a will is taken back.
  return queries;
}

Counted run_job(int machines, bool is_elastic) {
  const int port = free_port("127.0.0.1");
  MachineOptions options{.is_elastic = is_elastic,
                         .rank = 0,
                         .fewest = machines,
                         .machines = machines,
                         .address = "127.0.0.1",
                         .port = port,
                         .ranks = 4,
                         .max_restarts = 1};
  Counted counted{.launcher = {1 << 20, 1 << 20, 1 << 20}, .leader = {}};
  std::mutex mutex;
  std::barrier all_have_met(machines);
  std::vector<std::thread> launchers;
  for (int machine = 0; machine < machines; ++machine) {
    options.rank = machine;
    launchers.emplace_back([&, options] {
      const Queries mine = take_part(options, all_have_met);
      const std::lock_guard lock(mutex);
      if (options.rank == 0) counted.leader = mine;
      if (options.rank <= 1) return;  // Machine 1 has told of its failure too.
      Queries& fewest = counted.launcher;
      fewest.meeting = std::min(fewest.meeting, mine.meeting);
      fewest.again = std::min(fewest.again, mine.again);
      fewest.end = std::min(fewest.end, mine.end);
    });
    if (machine > 0) continue;
    EXPECT_TRUE(eventually([&] { return !port_is_free("127.0.0.1", port); }));
  }
  for (auto& launcher : launchers) launcher.join();
  return counted;
}

std::vector<int> sizes() {
  std::vector<int> all = {16, 128, 1024};
  if (std::getenv("ACCELERATE_TEST_EXTENDED") != nullptr) all.push_back(4096);
  std::erase_if(all, [](int machines) { return 2 * machines + 64 > files_allowed(); });
  return all;
}

std::string row_of(const char* what, const Queries& queries) {
  return std::string("| ") + what + " | " + std::to_string(queries.meeting) + " | " +
         std::to_string(queries.again) + " | " + std::to_string(queries.end) + " |\n";
}

TEST(Scale, ALauncherSendsAsManyMessagesInAJobOfAnySize) {
  open_more_files();
  std::string rows;
  for (const bool is_elastic : {false, true}) {
    std::optional<Queries> first;
    for (const int machines : sizes()) {
      SCOPED_TRACE((is_elastic ? "c10d, " : "static, ") + std::to_string(machines));
      const Counted counted = run_job(machines, is_elastic);
      if (!first) first = counted.launcher;
      EXPECT_EQ(counted.launcher.meeting, first->meeting);
      EXPECT_EQ(counted.launcher.again, first->again);
      EXPECT_EQ(counted.launcher.end, first->end);
    }
    ASSERT_TRUE(first);
    rows += row_of(is_elastic ? "`c10d`" : "static", *first);
  }
  expect_counted_rows("Scale", rows);
}

}  // namespace
}  // namespace accelerate::testing
