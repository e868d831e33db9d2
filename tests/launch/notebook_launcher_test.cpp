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

TEST(NotebookLauncher, SaysThatARankLeftByItself) {
  const auto message = message_of<LaunchError>([] {
    (void)debug_launcher([] {
      ::_exit(0);
      return 1;
    });
  });
  EXPECT_NE(message.find("rank 0 ended without returning"), std::string::npos) << message;
  EXPECT_THROW(debug_launcher([] { ::_exit(0); }), LaunchError);
}

// Handlers of the caller would have ranks go on after SIGTERM.
TEST(NotebookLauncher, LeavesTheCallersHandlersBehind) {
  struct sigaction before{}, ours{};
  ours.sa_handler = [](int) {};
  ::sigaction(SIGTERM, &ours, &before);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(debug_launcher([] {
                 if (variable("RANK") == "1") throw Error("no");
                 ::sleep(25);
               }),
               LaunchError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  ::sigaction(SIGTERM, &before, nullptr);
}

// A process that a rank started may keep the pipe of its output open.
TEST(NotebookLauncher, DoesNotWaitForWhatARankLeftRunning) {
  const auto values = notebook_launcher(
      [] {
        if (::fork() == 0) {
          for (;;) ::pause();
        }
        return 3;
      },
      {.num_processes = 2, .log_line_prefix_template = "[${rank}] "});
  EXPECT_EQ(values, (std::vector<int>{3, 3}));
}

// Of the launcher's own descriptors a rank has none but the files of results.
TEST(NotebookLauncher, HandsNoDescriptorsToRanks) {
  const auto count = [] {
    std::vector<std::string> targets;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      targets.push_back(std::filesystem::read_symlink(entry.path(), gone));
    }
    return targets;
  };
  for (const auto& targets : debug_launcher(count))
    for (const std::string& target : targets)
      EXPECT_TRUE(target.find("signalfd") == std::string::npos &&
                  target.find("pidfd") == std::string::npos)
          << target;
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
  EXPECT_NE(refused({.mixed_precision = "fp8"}).find("'fp8'"), std::string::npos);
  EXPECT_NE(refused({.use_port = 70000}).find("use_port is '70000'"), std::string::npos);
  const testing::ScopedEnv rank("RANK", "0");
  EXPECT_THROW(debug_launcher([] {}), UsageError);
}

}  // namespace
}  // namespace accelerate
