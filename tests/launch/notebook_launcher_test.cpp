// Ranks that are copies of the calling process.
#include "accelerate/launch/notebook_launcher.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <thread>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::message_of;

std::string variable(const char* name) {
  return env(name).value_or("");
}

TEST(NotebookLauncher, ReturnsWhatEachRankReturned) {
  const int base = 40;
  const auto ranks = notebook_launcher(
      [&] { return base + static_cast<int>(env_int("RANK").value_or(-1)); }, {.num_processes = 3});
  EXPECT_EQ(ranks, (std::vector<int>{40, 41, 42}));
  // Twice from one process, with other numbers and types.
  const auto texts =
      notebook_launcher([] { return variable("WORLD_SIZE") + "\xC3\xA9"; }, {.num_processes = 2});
  EXPECT_EQ(texts, (std::vector<std::string>{"2\xC3\xA9", "2\xC3\xA9"}));
  const auto numbers = debug_launcher([] { return std::vector<double>{0.1, std::nan(""), 1e308}; });
  ASSERT_EQ(numbers.size(), 2U);
  EXPECT_EQ(numbers[1][0], 0.1);
  EXPECT_TRUE(std::isnan(numbers[1][1]));
}

TEST(NotebookLauncher, CarriesMoreThanAPipeHolds) {
  const auto texts = debug_launcher([] { return std::string(3'000'000, 'x'); });
  EXPECT_EQ(texts[0].size(), 3'000'000U);
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(NotebookLauncher, TellsRanksAsTheLauncherDoes) {
  const auto told = notebook_launcher(
      [] {
        return variable("LOCAL_RANK") + " " + variable("ACCELERATE_MIXED_PRECISION") + " " +
               variable("MASTER_ADDR") + " " + variable("FORK_LAUNCHED");
      },
      {.num_processes = 2, .mixed_precision = "bf16", .master_addr = "127.0.0.2"});
  EXPECT_EQ(told[1], "1 bf16 127.0.0.2 1");
  EXPECT_EQ(debug_launcher([] { return variable("ACCELERATE_USE_CPU"); })[0], "True");
  EXPECT_FALSE(env("RANK")) << "the caller's own environment stays as it was";
}

TEST(NotebookLauncher, RethrowsWhatARankThrew) {
  const auto message = message_of<LaunchError>([] {
    notebook_launcher(
        [] {
          if (variable("RANK") == "1") throw ConfigError("the rate is negative");
        },
        {.num_processes = 2});
  });
  EXPECT_NE(message.find("rank 1 threw"), std::string::npos) << message;
  EXPECT_NE(message.find("the rate is negative"), std::string::npos) << message;
}

TEST(NotebookLauncher, SaysWhichRankDied) {
  const auto message = message_of<LaunchError>([] {
    debug_launcher([] {
      if (variable("RANK") == "1") ::raise(SIGKILL);
      ::pause();  // Ended by the launcher.
    });
  });
  EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
  EXPECT_NE(message.find("SIGKILL"), std::string::npos) << message;
}

TEST(NotebookLauncher, BeginsAgainAsOftenAsItMay) {
  const testing::TemporaryFolder folder;
  const auto mark = folder.path() / "mark";
  const auto fails_once = [&] {
    const bool is_first = !std::filesystem::exists(mark);
    if (variable("RANK") == "0" && is_first) {
      folder.write("mark", "");
      throw Error("the first time");
    }
    return std::string("done");
  };
  EXPECT_EQ(notebook_launcher(fails_once, {.num_processes = 2, .max_restarts = 1})[0], "done");
  std::filesystem::remove(mark);
  EXPECT_THROW((void)notebook_launcher(fails_once, {.num_processes = 2}), LaunchError);
}

TEST(NotebookLauncher, PrefixesLinesOfRanks) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "out";
  ::fflush(stdout);
  const int kept = ::dup(STDOUT_FILENO);
  ASSERT_NE(::freopen(file.c_str(), "w", stdout), nullptr);
  notebook_launcher([] { std::printf("one\ntwo"); },
                    {.num_processes = 2, .log_line_prefix_template = "[${role_name} ${rank}] "});
  ::fflush(stdout);
  ::dup2(kept, STDOUT_FILENO);
  ::close(kept);
  const std::string text = testing::file_text(file);
  for (const char* line :
       {"[default 0] one", "[default 1] one", "[default 0] two", "[default 1] two"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
}

TEST(NotebookLauncher, RefusesAProcessThatCannotBeCopied) {
  std::atomic<bool> ends = false;
  std::thread other([&] {
    while (!ends) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  const auto message = message_of<UsageError>([] { debug_launcher([] {}); });
  ends = true;
  other.join();
  EXPECT_NE(message.find("2 threads"), std::string::npos) << message;
  EXPECT_NE(message.find("set_num_threads(1)"), std::string::npos) << message;
  const auto inside =
      message_of<LaunchError>([] { debug_launcher([] { debug_launcher([] {}); }); });
  EXPECT_NE(inside.find("was called on a rank"), std::string::npos) << inside;
}

TEST(NotebookLauncher, RefusesOptionsThatItCannotServe) {
  const auto refused = [](const NotebookLauncherOptions& options) {
    return message_of<ConfigError>([&] { notebook_launcher([] {}, options); });
  };
  EXPECT_NE(refused({.num_nodes = 2}).find("num_nodes is 2"), std::string::npos);
  EXPECT_NE(refused({.rdzv_backend = "c10d"}).find("'c10d'"), std::string::npos);
  EXPECT_NE(refused({.rdzv_conf = "a=1"}).find("rdzv_conf"), std::string::npos);
  EXPECT_NE(refused({.max_restarts = -1}).find("max_restarts"), std::string::npos);
  EXPECT_NE(refused({.num_processes = 0}).find("num_processes"), std::string::npos);
  EXPECT_NE(refused({.mixed_precision = "half"}).find("mixed_precision"), std::string::npos);
}

}  // namespace
}  // namespace accelerate
