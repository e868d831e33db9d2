// Ranks as processes that hang: the report names each rank, and nothing is left behind.
#include "accelerate/comm/hang_watch.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/rendezvous.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

// Found by its name in the report, so it is nobody's friend and not inlined.
__attribute__((noinline)) void wait_outside_of_collectives(const std::string& done) {
  while (!std::filesystem::exists(done)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using testing::ProcessResult;
using testing::run_processes;
using testing::TemporaryFolder;

RendezvousOptions options_here() {
  RendezvousOptions options = rendezvous_options_from_env();
  options.timeout = 60s;
  return options;
}

std::string done_file() {
  return *env("TEST_FOLDER") + "/done";
}

// Prints the report, and then lets the rank that all wait for go on.
void let_go_after_the_report() {
  set_log_sink([](const LogRecord& record) {
    const std::string text(record.text);
    if (text.find("nothing has gone on") == std::string::npos) return;
    std::cout << text << std::endl;
    std::ofstream(done_file()) << "1";
    if (const auto stopped = std::ifstream(*env("TEST_FOLDER") + "/stopped"); stopped.is_open()) {
      const auto pid = parse_int(testing::file_text(*env("TEST_FOLDER") + "/stopped"));
      kill(static_cast<pid_t>(pid.value_or(0)), SIGCONT);
    }
  });
}

void misbehave(const std::string& how) {
  if (how == "sleeps") return wait_outside_of_collectives(done_file());
  if (how == "spins") {
    while (!std::filesystem::exists(done_file())) continue;
    return;
  }
  // Renamed, so that nobody reads half of it.
  std::ofstream(*env("TEST_FOLDER") + "/new") << getpid();
  std::filesystem::rename(*env("TEST_FOLDER") + "/new", *env("TEST_FOLDER") + "/stopped");
  raise(SIGSTOP);
}

// One rank misbehaves before its second all-reduce.
RANK_MAIN(hang) {
  const auto comm = rendezvous(options_here());
  let_go_after_the_report();
  at::Tensor sum = torch::ones({1024});
  comm->all_reduce(sum, ReduceOp::sum).wait();
  if (comm->rank() == *env_int("TEST_RANK")) misbehave(*env("TEST_HOW"));
  comm->all_reduce(sum, ReduceOp::sum).wait();
  comm->barrier();
  return 0;
}

class HangWatchTest : public ::testing::Test {
 protected:
  std::vector<ProcessResult> run(int ranks, const std::string& name,
                                 std::map<std::string, std::string> more) {
    std::map<std::string, std::string> env{
        {"TEST_FOLDER", folder_.path().string()},
        {"TMPDIR", folder_.path().string()},
        {"ACCELERATE_HANG_LIMIT", "1"},
        {"ACCELERATE_MONITOR_INTERVAL", "0.1"},
        {"TORCH_FR_DUMP_TEMP_FILE", (folder_.path() / "rank_").string()}};
    for (auto& [key, value] : more) env[key] = value;
    return run_processes(ranks, name, {.env = env});
  }

  TemporaryFolder folder_;
};

std::string all_reports(const std::vector<ProcessResult>& ranks) {
  std::string text;
  for (const auto& rank : ranks) text += rank.out;
  return text;
}

TEST_F(HangWatchTest, NamesTheRankThatSleepsAndShowsItsStack) {
  const auto ranks = run(3, "hang", {{"TEST_RANK", "1"}, {"TEST_HOW", "sleeps"}});
  for (const auto& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.err;
  const std::string& report = ranks[0].out;
  EXPECT_NE(report.find("ranks 0, 2 wait in all_reduce #3 of Float[1024] (4.00 KB, group world)"),
            std::string::npos)
      << report;
  EXPECT_NE(report.find("rank 1 is in no collective: its last, all_reduce #2"), std::string::npos)
      << report;
  EXPECT_NE(report.find("They wait for rank 1"), std::string::npos) << report;
  EXPECT_NE(report.find("wait_outside_of_collectives"), std::string::npos) << report;
  EXPECT_NE(report.find("The timeout of the group, 60 s, ends the job"), std::string::npos);
  EXPECT_EQ(ranks[1].out + ranks[2].out, "") << "one rank reports";
}

TEST_F(HangWatchTest, NamesTheRankThatComputesForever) {
  const auto ranks = run(2, "hang", {{"TEST_RANK", "0"}, {"TEST_HOW", "spins"}});
  for (const auto& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.err;
  const std::string report = all_reports(ranks);
  EXPECT_NE(report.find("rank 0 is in no collective"), std::string::npos) << report;
  EXPECT_NE(report.find("misbehave"), std::string::npos) << report;
}

TEST_F(HangWatchTest, NamesTheRankThatIsStopped) {
  const auto ranks = run(2, "hang", {{"TEST_RANK", "1"}, {"TEST_HOW", "stops"}});
  for (const auto& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.err;
  EXPECT_NE(ranks[0].out.find("rank 1 does not answer: it is process "), std::string::npos)
      << ranks[0].out;
  EXPECT_NE(ranks[0].out.find(", which is stopped"), std::string::npos) << ranks[0].out;
}

// Rank 0 hosts the store, so the other rank cannot ask anybody.
TEST_F(HangWatchTest, NamesRankZeroWhenItIsStopped) {
  const auto ranks = run(2, "hang", {{"TEST_RANK", "0"}, {"TEST_HOW", "stops"}});
  for (const auto& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.err;
  EXPECT_NE(ranks[1].out.find("the store of the job does not answer"), std::string::npos)
      << ranks[1].out;
  EXPECT_NE(ranks[1].out.find("rank 0 does not answer: it is process "), std::string::npos)
      << ranks[1].out;
  EXPECT_NE(ranks[1].out.find(", which is stopped"), std::string::npos) << ranks[1].out;
}

// Gloo does not compare calls: both ranks wait forever for another message.
RANK_MAIN(differ) {
  const auto comm = rendezvous(options_here());
  set_log_sink([](const LogRecord& record) {
    if (record.text.find("nothing has gone on") == std::string_view::npos) return;
    std::cout << record.text << std::endl;
    _exit(0);
  });
  at::Tensor values = torch::ones({4});
  try {
    if (comm->rank() == 0) {
      comm->all_reduce(values, ReduceOp::sum).wait();
    } else {
      comm->barrier();
    }
  } catch (const CommError&) {
    return 0;  // Rank 0 has reported and left.
  }
  return 3;
}

TEST_F(HangWatchTest, NamesRanksThatMakeDifferentCalls) {
  const auto ranks = run(2, "differ", {{"ACCELERATE_COMM", "gloo"}});
  for (const auto& rank : ranks) EXPECT_EQ(rank.exit_code, 0) << rank.err;
  const std::string report = all_reports(ranks);
  EXPECT_NE(report.find("rank 0 waits in all_reduce #2 of Float[4] (16.00 B, group world)"),
            std::string::npos)
      << report;
  EXPECT_NE(report.find("rank 1 waits in barrier #2 (group world)"), std::string::npos) << report;
  EXPECT_NE(report.find("The ranks make different calls"), std::string::npos) << report;
}

// A rank that is killed leaves its record, which was written as it went.
RANK_MAIN(die) {
  const auto comm = rendezvous(options_here());
  at::Tensor sum = torch::ones({4});
  comm->all_reduce(sum, ReduceOp::sum).wait();
  if (comm->rank() == 1) kill(getpid(), SIGKILL);
  try {
    comm->all_reduce(sum, ReduceOp::sum).wait();
  } catch (const CommError&) {
    return 0;
  }
  return 3;
}

TEST_F(HangWatchTest, TheRecordSurvivesAKilledRank) {
  run(2, "die", {});
  const auto killed = read_flight_record(folder_.path() / "rank_1.flight");
  ASSERT_EQ(killed.entries.size(), 2U);
  EXPECT_EQ(describe(killed.entries[1]), "all_reduce #2 of Float[4] (16.00 B, group world)");
  EXPECT_EQ(killed.entries[1].state, FlightState::ended);
  EXPECT_FALSE(killed.left_in_order);
  const auto other = read_flight_record(folder_.path() / "rank_0.flight");
  ASSERT_EQ(other.entries.size(), 3U);
  EXPECT_EQ(other.entries[2].state, FlightState::failed);
  EXPECT_TRUE(other.left_in_order);
}

RANK_MAIN(list_threads) {
  {
    const auto comm = rendezvous(options_here());
    comm->barrier();
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::cout << trim(testing::file_text(task.path() / "comm")) << ";";
    }
    comm->barrier();
  }
  std::cout << "left;";
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::cout << trim(testing::file_text(task.path() / "comm")) << ";";
  }
  return 0;
}

TEST_F(HangWatchTest, HasOneThreadNoneWhenDisabledAndLeavesNothing) {
  for (const std::string limit : {"30", "0"}) {
    const auto ranks =
        run(2, "list_threads", {{"ACCELERATE_HANG_LIMIT", limit}, {"TORCH_FR_DUMP_TEMP_FILE", ""}});
    for (const auto& rank : ranks) {
      EXPECT_EQ(rank.exit_code, 0) << rank.err;
      const auto left = rank.out.find("left;");
      ASSERT_NE(left, std::string::npos);
      EXPECT_EQ(rank.out.substr(0, left).find("comm-watch") != std::string::npos, limit == "30")
          << rank.out;
      EXPECT_EQ(rank.out.substr(left).find("comm-watch"), std::string::npos) << rank.out;
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  }
}

TEST(HangOptions, ComeFromTheEnvironmentAndTheTimeout) {
  using std::chrono::milliseconds;
  EXPECT_EQ(detail::hang_options_from_env(30min).limit, milliseconds(60'000));
  EXPECT_EQ(detail::hang_options_from_env(40s).limit, milliseconds(20'000));
  EXPECT_EQ(detail::hang_options_from_env(9s).limit, milliseconds(0));
  const testing::ScopedEnv limit("ACCELERATE_HANG_LIMIT", "2.5");
  const testing::ScopedEnv slots("TORCH_NCCL_TRACE_BUFFER_SIZE", "7");
  const testing::ScopedEnv prefix("TORCH_FR_DUMP_TEMP_FILE", "/tmp/x_");
  const auto options = detail::hang_options_from_env(9s);
  EXPECT_EQ(options.limit, milliseconds(2'500));
  EXPECT_EQ(options.interval, milliseconds(250));
  EXPECT_EQ(options.slots, 7U);
  EXPECT_EQ(options.prefix, "/tmp/x_");
}

TEST(HangOptions, RefuseWhatIsNoNumberOfSeconds) {
  const auto refusal = [](const char* name, const char* value) {
    const testing::ScopedEnv scope(name, value);
    return testing::message_of<ConfigError>([] { (void)detail::hang_options_from_env(60s); });
  };
  for (const char* value : {"soon", "-1", "nan", "1e9"}) {
    EXPECT_NE(refusal("ACCELERATE_HANG_LIMIT", value).find("number of seconds, or 0"),
              std::string::npos);
    EXPECT_NE(refusal("ACCELERATE_MONITOR_INTERVAL", value).find("from 0.01"), std::string::npos);
  }
  EXPECT_NE(refusal("TORCH_FR_BUFFER_SIZE", "-5").find("allowed are 0 to"), std::string::npos);
}

TEST(FlightRecorder, KeepsTheLastCallsAndNamesDtypesAsLibTorchDoes) {
  const auto recorder =
      std::make_shared<detail::FlightRecorder>(detail::FlightOptions{1, 2, 4, {}});
  const auto group = detail::flight_of({recorder, "world", {}}, 1, 2);
  for (std::uint64_t i = 1; i <= 6; ++i) {
    const auto ticket = group.begin({FlightKind::all_gather, torch::ones({2, 3})}, i);
    ticket.waits();
    if (i != 6) ticket.ends();
  }
  const auto record = recorder->read();
  ASSERT_EQ(record.entries.size(), 4U);
  EXPECT_EQ(record.begun, 6U);
  EXPECT_EQ(record.entries[0].number, 3U);
  EXPECT_EQ(record.entries[3].state, FlightState::waiting);
  EXPECT_EQ(recorder->longest_wait()->position, 6U);
  EXPECT_EQ(describe(record.entries[3]), "all_gather #6 of Float[2, 3] (24.00 B, group world)");
  for (const auto dtype : {at::kByte, at::kLong, at::kHalf, at::kBFloat16, at::kBool, at::kDouble,
                           at::kFloat8_e4m3fn, at::kComplexDouble}) {
    EXPECT_EQ(detail::flight_dtype(static_cast<std::uint8_t>(dtype)), c10::toString(dtype));
  }
}

}  // namespace
}  // namespace accelerate
