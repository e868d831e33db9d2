#include "accelerate/launch/supervisor.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace accelerate {
namespace {

RankResult exited(int rank, int code, bool stopped = false) {
  RankResult result;
  result.rank = rank;
  result.pid = 42;
  result.exit_code = code;
  result.stopped_by_us = stopped;
  return result;
}

TEST(Report, NamesRankProcessCauseAndTime) {
  RankResult rank = exited(1, 3);
  rank.ran_for = std::chrono::milliseconds(1240);
  EXPECT_EQ(describe_rank(rank), "rank 1 (pid 42) exited with code 3 after 1.2 s");
  rank.exit_code.reset();
  rank.signal = SIGSEGV;
  EXPECT_EQ(describe_rank(rank),
            "rank 1 (pid 42) was killed by SIGSEGV (Segmentation fault) after 1.2 s");
}

TEST(Report, HintsAtMemoryWhenARankIsKilled) {
  RankResult rank;
  rank.signal = SIGKILL;
  EXPECT_NE(likely_cause(rank).find("memory"), std::string::npos);
  EXPECT_TRUE(likely_cause(rank).ends_with(" [accelerate.error/killed-by-signal]"));
  EXPECT_EQ(likely_cause(exited(0, 1)), "");
}

TEST(Report, SaysWhatBecameOfTheOthers) {
  LaunchResult result;
  result.ranks = {exited(0, 0), exited(1, 3), exited(2, 7, true), exited(3, 1)};
  result.first_failure = 1;
  EXPECT_EQ(describe_others(result),
            "  rank 3 (pid 42) exited with code 1 after 0.0 s, at the same moment\n"
            "  rank 2 ended when the launcher said so\n"
            "  rank 0 had finished successfully before\n");
  EXPECT_EQ(describe_others(LaunchResult{}), "");
}

TEST(Report, NamesSignalsWithoutANameByNumber) {
  EXPECT_EQ(signal_name(SIGINT), "SIGINT");
  EXPECT_EQ(signal_name(50), "signal 50");
}

}  // namespace
}  // namespace accelerate
