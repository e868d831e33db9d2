// What a program says when it ends, and with which exit code.
#include "accelerate/base/run_main.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

struct Asked final : std::exception, ProgramEnd {
  explicit Asked(int code) : code(code) {}
  [[nodiscard]] const char* what() const noexcept override { return "as asked\n"; }
  [[nodiscard]] int exit_code() const noexcept override { return code; }
  int code;
};

struct Ended {
  std::vector<int> codes;
  std::string said;
};

// Runs `program(rank)` in `ranks` processes and returns what they wrote.
Ended run(int ranks, const std::function<void(int rank)>& program) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("RANK", std::to_string(rank).c_str(), 1);
      ::setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
      ::setenv("MASTER_PORT", std::to_string(::getppid()).c_str(), 1);
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(ends[1], STDERR_FILENO);
      ::_exit(run_main([&] { program(rank); }));
    }
    children.push_back(child);
  }
  ::close(ends[1]);
  Ended ended;
  char text[512];
  for (ssize_t got = 0; (got = ::read(ends[0], text, sizeof text)) > 0;)
    ended.said.append(text, static_cast<std::size_t>(got));
  ::close(ends[0]);
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    ended.codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  return ended;
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(RunMain, ReturnsTheCodeOfTheProgram) {
  EXPECT_EQ(run_main([] {}), 0);
  EXPECT_EQ(run_main([] { return 3; }), 3);
}

TEST(RunMain, SaysAnErrorWithItsCausesAndReturnsOne) {
  const auto ended = run(1, [](int) {
    try {
      throw DataError("line 3 is\x1b[31m \u202ered\nException raised from f at g.cpp:1");
    } catch (const DataError&) {
      throw_with_context<ConfigError>("cannot load a.csv");
    }
  });
  EXPECT_EQ(ended.codes, std::vector<int>{1});
  EXPECT_NE(ended.said.find(": cannot load a.csv\n  because: line 3 is?[31m ?red\n"),
            std::string::npos)
      << ended.said;
  EXPECT_EQ(ended.said.find("g.cpp"), std::string::npos);
}

TEST(RunMain, ReturnsTheCodeOfAnEndThatWasAskedFor) {
  const auto help = run(2, [](int) { throw Asked(0); });
  EXPECT_EQ(help.codes, (std::vector<int>{0, 0}));
  EXPECT_EQ(help.said, "as asked\n");
  const auto interrupted = run(2, [](int) { throw Asked(130); });
  EXPECT_EQ(interrupted.codes, (std::vector<int>{130, 130}));
  EXPECT_EQ(count(interrupted.said, "as asked"), 1U);
}

TEST(RunMain, SaysOnceWhatAllRanksSay) {
  const auto ended = run(4, [](int) { throw ConfigError("no such folder"); });
  EXPECT_EQ(ended.codes, (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(count(ended.said, "no such folder"), 1U) << ended.said;
}

// A launcher has the time between to end the ranks that are left.
TEST(RunMain, SaysTheCauseBeforeItsConsequences) {
  const auto ended = run(2, [](int rank) {
    if (rank == 1) {  // Later, so that the order of the lines is no chance.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      throw DataError("row 7 is broken");
    }
    throw CommError("rank 1 is gone");
  });
  EXPECT_EQ(count(ended.said, "row 7 is broken"), 1U) << ended.said;
  EXPECT_LT(ended.said.find("row 7 is broken"), ended.said.find("rank 1 is gone")) << ended.said;
}

}  // namespace
}  // namespace accelerate
