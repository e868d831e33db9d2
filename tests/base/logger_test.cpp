#include "accelerate/base/logger.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <regex>
#include <sstream>
#include <thread>
#include <vector>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/process_identity.h"
#include "tests/support/log_capture.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::LogCapture;
using testing::ScopedEnv;
using Lines = std::vector<std::string>;

// Runs `body` on `world_size` threads, each with a rank of its own and a common barrier.
void as_ranks(int world_size, const std::function<void()>& body) {
  std::barrier<> everyone(world_size);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      const ScopedProcessIdentity scope({.rank = rank,
                                         .world_size = world_size,
                                         .local_rank = rank,
                                         .local_world_size = world_size,
                                         .initialized = true,
                                         .barrier = [&] { everyone.arrive_and_wait(); }});
      body();
    });
  }
}

TEST(Logger, MainProcessAloneLogsUnlessAllAreAsked) {
  const Logger log = get_logger("test", LogLevel::info);
  LogCapture capture;
  as_ranks(3, [&] { log.info("once"); });
  EXPECT_EQ(capture.lines(), Lines{"INFO test: once"});
}

TEST(Logger, EveryRankLogsWithItsNumberInFront) {
  const Logger log = get_logger("test", LogLevel::info);
  LogCapture capture;
  as_ranks(2, [&] { log.info("all", {.main_process_only = false}); });
  Lines lines = capture.lines();
  std::ranges::sort(lines);
  EXPECT_EQ(lines, (Lines{"INFO test: [RANK 0] all", "INFO test: [RANK 1] all"}));
}

TEST(Logger, InOrderFollowsTheRanks) {
  const Logger log = get_logger("test", LogLevel::info);
  LogCapture capture;
  as_ranks(4, [&] {
    for (int i = 0; i < 25; ++i) log.info("turn", {.in_order = true});
  });
  const Lines lines = capture.lines();
  ASSERT_EQ(lines.size(), 100);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i], "INFO test: [RANK " + std::to_string(i % 4) + "] turn");
  }
}

TEST(Logger, ALoneProcessNeedsNoRankInFrontAndNoState) {
  const Logger log = get_logger("test", LogLevel::info);
  LogCapture capture;
  log.error("alone", {.main_process_only = false});
  log.error("in order", {.in_order = true});
  EXPECT_EQ(capture.lines(), (Lines{"ERROR test: alone", "ERROR test: in order"}));
}

TEST(Logger, LevelsBelowItsOwnAreDropped) {
  const Logger log = get_logger("test", LogLevel::error);
  LogCapture capture;
  log.debug("no");
  log.info("no");
  log.warning("no");
  log.error("yes");
  log.critical("yes");
  EXPECT_EQ(capture.lines(), (Lines{"ERROR test: yes", "CRITICAL test: yes"}));
  EXPECT_FALSE(log.enabled(LogLevel::warning));
}

TEST(Logger, WarningOnceIsOncePerRankAndText) {
  const Logger log = get_logger("once", LogLevel::info);
  LogCapture capture;
  as_ranks(2, [&] {
    for (int i = 0; i < 3; ++i) log.warning_once("old file", {.in_order = true});
  });
  get_logger("once", LogLevel::info).warning_once("another");
  EXPECT_EQ(capture.lines(), (Lines{"WARNING once: [RANK 0] old file",
                                    "WARNING once: [RANK 1] old file", "WARNING once: another"}));
}

TEST(Logger, EnvironmentSetsTheLevelInAnyCase) {
  const std::vector<std::pair<const char*, LogLevel>> rows = {
      {"debug", LogLevel::debug},   {"INFO", LogLevel::info},   {"Warning", LogLevel::warning},
      {"warn", LogLevel::warning},  {"error", LogLevel::error}, {"CRITICAL", LogLevel::critical},
      {"fatal", LogLevel::critical}};
  for (const auto& [text, level] : rows) {
    const ScopedEnv scope("ACCELERATE_LOG_LEVEL", text);
    EXPECT_EQ(get_logger("test").level(), level) << text;
    EXPECT_EQ(get_logger("test", LogLevel::error).level(), LogLevel::error) << text;
  }
  const ScopedEnv unset("ACCELERATE_LOG_LEVEL", nullptr);
  EXPECT_EQ(get_logger("test").level(), LogLevel::warning);
}

TEST(Logger, AnUnknownLevelIsAnErrorThatNamesTheAllowedOnes) {
  const ScopedEnv scope("ACCELERATE_LOG_LEVEL", "warnning");
  try {
    (void)get_logger("test");
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_TRUE(std::regex_search(
        error.what(),
        std::regex("ACCELERATE_LOG_LEVEL is 'warnning'.*debug, info, warning, error, critical.*"
                   "Did you mean 'WARNING'")))
        << error.what();
  }
}

TEST(Logger, LinesCarryTimeLevelAndNameAndCannotSteerATerminal) {
  const std::string line = format_log_line({LogLevel::info, "a.b", "x\x1b[2Jy\r\nz\ttab é\u202e"});
  EXPECT_TRUE(
      std::regex_match(line, std::regex("\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d INFO a\\.b: "
                                        "x\\\\x1b\\[2Jy\\\\x0d\nz\ttab é\\\\xe2\\\\x80\\\\xae\n")))
      << line;
}

// What `body` writes to standard error.
std::string standard_error_of(const std::function<void()>& body) {
  const testing::TemporaryFolder folder;
  const auto path = folder.write("stderr", "");
  const int before = dup(STDERR_FILENO);
  const Descriptor file(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  dup2(file.get(), STDERR_FILENO);
  body();
  dup2(before, STDERR_FILENO);
  close(before);
  return read_file(real_file_system(), path, 10 << 20);
}

TEST(Logger, GoesToStandardErrorByDefaultInWholeLines) {
  const Logger log = get_logger("pipe", LogLevel::info);
  const std::string text = standard_error_of([&] {
    as_ranks(2, [&] {
      for (int i = 0; i < 500; ++i) log.info(std::string(300, 'x'), {.main_process_only = false});
    });
  });
  const std::regex line("[-0-9]{10} [:0-9]{8} INFO pipe: \\[RANK [01]\\] x{300}");
  int lines = 0;
  std::istringstream stream(text);
  for (std::string one; std::getline(stream, one); ++lines) {
    ASSERT_TRUE(std::regex_match(one, line)) << one;
  }
  EXPECT_EQ(lines, 1000);
}

// Eight ranks that load the same weights before they meet would warn eight times.
TEST(Logger, BeforeRanksMeetTheLaunchersRankZeroWarnsForAll) {
  const testing::ScopedEnv rank("RANK", "1");
  const LogCapture capture;
  const Logger log = get_logger("start");
  log.warning("said by rank 0");
  log.warning("of this rank", {.main_process_only = false});
  log.error("cannot meet");
  EXPECT_EQ(capture.lines(), (Lines{"WARNING start: of this rank", "ERROR start: cannot meet"}));
}

}  // namespace
}  // namespace accelerate
