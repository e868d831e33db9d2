// Python programs under our launcher, with the real Python Accelerate.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "accelerate/base/text.h"
#include "tests/support/support.h"

namespace accelerate::testing {
namespace {

const std::string kBin = ACCELERATE_SOURCE_DIR "/.venv/bin";

RunResult launch_python(std::vector<std::string> words, const TemporaryFolder& folder) {
  RunOptions options;
  options.timeout = std::chrono::seconds(60);
  options.env = {{"PATH", kBin + ":/usr/local/bin:/usr/bin:/bin"}, {"HF_HOME", folder.path()}};
  options.working_directory = ACCELERATE_SOURCE_DIR "/tests/reference";
  words.insert(words.begin(), {accelerate_program(), "launch"});
  return run_program(words, options);
}

class LivePython : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::filesystem::exists(kBin + "/python3")) return;
    ASSERT_EQ(std::getenv("CI"), nullptr) << "no Python in " << kBin << ": scripts/setup makes it";
    GTEST_SKIP() << "no Python in " << kBin << ": scripts/setup makes it";
  }

  std::vector<std::string> sorted_lines(const std::string& text) {
    auto lines = split(trim(text), '\n');
    std::ranges::sort(lines);
    return lines;
  }

  TemporaryFolder folder_;
};

TEST_F(LivePython, AccelerateReducesOverOurRanks) {
  const auto result =
      launch_python({"--num_processes", "2", "live_accelerate_allreduce.py"}, folder_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(sorted_lines(result.out),
            (std::vector<std::string>{"rank 0 of 2: sum 3", "rank 1 of 2: sum 3"}));
}

TEST_F(LivePython, AccelerateRunsAloneAsIfStartedByHand) {
  const auto result =
      launch_python({"--cpu", "--num_processes=1", "live_accelerate_allreduce.py"}, folder_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "rank 0 of 1: sum 1\n");
}

TEST_F(LivePython, RunsAModule) {
  const auto result = launch_python({"--num_processes", "1", "-m", "json.tool", "--help"}, folder_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("usage"), std::string::npos);
}

TEST_F(LivePython, PassesThePythonsExitCodeOn) {
  const auto script = folder_.write("fails.py", "import sys\nsys.exit(5)\n");
  EXPECT_EQ(launch_python({"--num_processes", "2", script}, folder_).exit_code, 5);
}

}  // namespace
}  // namespace accelerate::testing
