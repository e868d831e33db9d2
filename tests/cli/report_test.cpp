// `accelerate report` and `accelerate watch --once` as a user meets them.
#include <gtest/gtest.h>

#include "accelerate/watch/run_log/run_log_writer.h"
#include "tests/support/files.h"
#include "tests/support/support.h"

namespace accelerate::cli {
namespace {

using testing::file_text;
using testing::RunResult;
using testing::TemporaryFolder;
using Words = std::vector<std::string>;

class RunCommands : public ::testing::Test {
 protected:
  RunCommands() {
    std::filesystem::create_directories(home_.path() / "run");
    RunLogWriter log(home_.path() / "run" / kRunLogFile);
    log.begin({.time = 1000, .max_steps = 20, .model = "Net"});
    log.log({.step = 10, .time = 1010, .loss = 0.5});
    log.evaluate({.step = 10, .time = 1011, .metrics = {{"eval_loss", 0.75}}});
    log.save({.step = 10, .time = 1012, .folder = "checkpoint-10"});
  }

  RunResult accelerate(Words words) {
    words.insert(words.begin(), testing::accelerate_program());
    return testing::run_program(words, {.env = {{"LC_ALL", "C.UTF-8"}},
                                        .timeout = std::chrono::seconds(10),
                                        .working_directory = home_.path()});
  }

  TemporaryFolder home_;
};

TEST_F(RunCommands, ReportWritesThePageIntoTheRun) {
  const auto result = accelerate({"report", "run"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "1 log, 1 evaluation, 1 checkpoint of run/run_log.jsonl\n  " +
                            (home_.path() / "run" / "report.html").string() + "\n");
  const std::string page = file_text(home_.path() / "run" / "report.html");
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_NE(page.find("<h1>Net</h1>"), std::string::npos);
  EXPECT_EQ(testing::names_in(home_.path() / "run"), (Words{"report.html", "run_log.jsonl"}));
}

TEST_F(RunCommands, ReportWritesWhereItIsTold) {
  for (const char* flag : {"--output", "-o"}) {
    const auto result = accelerate({"report", "run", flag, "page.html"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(std::filesystem::remove(home_.path() / "page.html")) << flag;
  }
  EXPECT_EQ(testing::names_in(home_.path() / "run"), Words{"run_log.jsonl"});
}

TEST_F(RunCommands, ReportTakesTheFileAndTheFolderItIsIn) {
  for (const char* run : {"run/", "run/.", "run/run_log.jsonl", "./run"})
    EXPECT_EQ(accelerate({"report", run, "-o", "page.html"}).exit_code, 0) << run;
  EXPECT_NE(file_text(home_.path() / "page.html").find("<title>run</title>"), std::string::npos);
}

TEST_F(RunCommands, WatchPrintsOnePage) {
  const auto result = accelerate({"watch", "--once", "run"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"run  Net", "10/20", "loss 0.5", "eval_loss 0.75", "checkpoint-10"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << " in\n" << result.out;
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
}

TEST_F(RunCommands, BadCallsFailWithTheCure) {
  std::filesystem::create_directories(home_.path() / "empty");
  home_.write("bad/trainer_state.json", "{");
  struct {
    Words words;
    int exit_code;
    const char* says;
  } const cases[] = {
      {{"report"}, 2, "RUN is required"},
      {{"watch"}, 2, "RUN is required"},
      {{"report", ""}, 2, "RUN is empty"},
      {{"report", "none"}, 2, "there is no folder 'none'"},
      {{"watch", "none"}, 2, "there is no folder 'none'"},
      {{"report", "empty"}, 2, "neither run_log.jsonl"},
      {{"watch", "empty", "--once"}, 2, "neither run_log.jsonl"},
      {{"report", "bad"}, 2, "is not a Trainer state"},
      {{"report", "run", "more"}, 2, "more"},
      {{"report", "run", "-o", "none/page.html"}, 1, "No such file or directory"},
      {{"report", "run", "-o", "empty"}, 1, "empty"},
      {{"report", "run", "--ouput", "a"}, 2, "--ouput"},
  };
  for (const auto& row : cases) {
    const auto result = accelerate(row.words);
    EXPECT_EQ(result.exit_code, row.exit_code) << row.says << ": " << result.err;
    EXPECT_NE(result.err.find(row.says), std::string::npos) << row.says << ": " << result.err;
  }
}

TEST_F(RunCommands, ShowTheirFlags) {
  for (const char* command : {"report", "watch"}) {
    const auto help = accelerate({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_NE(help.out.find("RUN"), std::string::npos);
  }
}

}  // namespace
}  // namespace accelerate::cli
