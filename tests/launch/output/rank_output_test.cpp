// What ranks write, in files and on the terminal, as a user of the command sees it.
#include "accelerate/launch/output/rank_output.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/supervisor.h"
#include "tests/launch/support.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"

namespace accelerate::testing {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Words = std::vector<std::string>;

class RankOutput : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(accelerate_program())) GTEST_SKIP() << "built without the command";
    fs::create_directory(temporary());
    options_.env = {{"TMPDIR", temporary()}, {"HF_HOME", folder_.path() / "home"}};
    options_.working_directory = folder_.path();
  }
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return processes_tagged(tag_) == 0; }, 20s));
  }

  [[nodiscard]] std::string temporary() const { return folder_.path() / "temporary"; }
  [[nodiscard]] std::string logs() const { return folder_.path() / "logs"; }

  [[nodiscard]] Words command(const Words& flags, const Words& program) const {
    Words words = {accelerate_program(), "launch", "--cpu", "--num_processes", "2"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }
  [[nodiscard]] Words probe(const Words& words) const {
    Words program = {probe_program(), tag_};
    program.insert(program.end(), words.begin(), words.end());
    return program;
  }
  RunResult launch_with(const Words& flags, const Words& words) {
    return run_program(command(flags, probe(words)), options_);
  }
  RunResult launch_shell(const Words& flags, const std::string& script) {
    return run_program(command(flags, {"/bin/sh", "-c", script}), options_);
  }

  // The files of the only run below `folder`, by name; the part of its name by chance left out.
  static std::map<std::string, std::string> files_in(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = fs::relative(entry.path(), folder);
      files[std::regex_replace(name, std::regex("_[A-Za-z0-9]{6}/"), "_?/")] =
          text_of(entry.path());
    }
    return files;
  }
  static Words sorted_lines(const std::string& text) {
    Words lines = split(text, '\n');
    std::ranges::sort(lines);
    return lines;
  }

  const std::string tag_ = unique_tag();
  TemporaryFolder folder_;
  RunOptions options_;
};

using Files = std::map<std::string, std::string>;

TEST_F(RankOutput, GoesToFilesAlone) {
  const auto result =
      launch_shell({"--redirects", "3", "--log_dir", logs()}, "echo out $RANK; echo err $RANK >&2");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out + result.err, "");
  EXPECT_EQ(files_in(logs()), (Files{{"none_?/attempt_0/0/stdout.log", "out 0\n"},
                                     {"none_?/attempt_0/0/stderr.log", "err 0\n"},
                                     {"none_?/attempt_0/1/stdout.log", "out 1\n"},
                                     {"none_?/attempt_0/1/stderr.log", "err 1\n"}}));
}

TEST_F(RankOutput, GoesToFilesAndWithAPrefixToTheTerminal) {
  const auto result = launch_shell({"-t3", "--log_dir", "logs", "--role", "actor"},
                                   "echo out $RANK; echo more; echo err $RANK >&2");
  EXPECT_EQ(sorted_lines(result.out),
            (Words{"", "[actor0]:more", "[actor0]:out 0", "[actor1]:more", "[actor1]:out 1"}));
  EXPECT_EQ(sorted_lines(result.err), (Words{"", "[actor0]:err 0", "[actor1]:err 1"}));
  EXPECT_EQ(files_in(logs())["none_?/attempt_0/1/stdout.log"], "out 1\nmore\n");
}

TEST_F(RankOutput, GoesWhereEachLocalRankIsTold) {
  options_.env["TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"] = "<${rank}> ";
  const auto result = launch_shell({"--tee", "1:1", "--redirects", "0:2", "--log_dir", logs()},
                                   "echo out $RANK; echo err $RANK >&2");
  EXPECT_EQ(sorted_lines(result.out), (Words{"", "<1> out 1", "out 0"}));
  EXPECT_EQ(result.err, "err 1\n");
  EXPECT_EQ(files_in(logs()), (Files{{"none_?/attempt_0/0/stderr.log", "err 0\n"},
                                     {"none_?/attempt_0/1/stdout.log", "out 1\n"}}));
}

TEST_F(RankOutput, OfOtherRanksIsHiddenFromTheTerminal) {
  const auto result = launch_shell({"--tee", "1", "--local_ranks_filter", "1", "--log_dir", logs()},
                                   "echo out $RANK; echo err $RANK >&2");
  EXPECT_EQ(result.out, "[default1]:out 1\n");
  EXPECT_EQ(result.err, "err 1\n");
  EXPECT_EQ(files_in(logs())["none_?/attempt_0/0/stdout.log"], "out 0\n");
}

TEST_F(RankOutput, OfASingleProcessGoesToFilesToo) {
  const auto result = run_program({accelerate_program(), "launch", "--cpu", "--tee", "1",
                                   "--log_dir", logs(), "/bin/echo", "alone"},
                                  options_);
  EXPECT_EQ(result.out, "[default0]:alone\n");
  EXPECT_EQ(files_in(logs()), (Files{{"none_?/attempt_0/0/stdout.log", "alone\n"}}));
}

TEST_F(RankOutput, StaysInATemporaryFolderThatIsNamed) {
  const auto result = launch_shell({"-q", "--redirects", "1"}, "echo out $RANK");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(result.err, found,
                                std::regex("what ranks write is in '(.*/none_[A-Za-z0-9]{6})'")))
      << result.err;
  EXPECT_EQ(text_of(found[1].str() + "/attempt_0/1/stdout.log"), "out 1\n");
}

TEST_F(RankOutput, LeavesNoFolderBehindWhereNobodyAskedForFiles) {
  EXPECT_EQ(launch_with({}, {"1:exit=3"}).exit_code, 3);
  EXPECT_EQ(entries(temporary()), 0);
}

// Lines that are long, have no end, end as progress bars do, or are no text.
TEST_F(RankOutput, IsShownLineByLineWhateverItIs) {
  const auto result =
      launch_shell({"--tee", "0:1", "--local_ranks_filter", "0", "--log_dir", logs()},
                   R"(printf 'a\n\n\0\377\rb\r\nc\r\r\nend')");
  const std::string p = "[default0]:";
  EXPECT_EQ(result.out, p + "a\n" + p + "\n" + p + std::string("\0\xff\n", 3) + p + "b\n" + p +
                            "c\n" + p + "\n" + p + "end\n");
  EXPECT_EQ(files_in(logs())["none_?/attempt_0/0/stdout.log"],
            std::string("a\n\n\0\xff\rb\r\nc\r\r\nend", 16));
}

TEST_F(RankOutput, IsShownInPiecesWhereALineIsLong) {
  constexpr std::size_t kBytes = 3'000'000;
  const auto result = launch_with({"--tee", "1", "--log_dir", logs()},
                                  {"flood=" + std::to_string(kBytes), "print="});
  EXPECT_EQ(std::ranges::count(result.out, 'x'), 2 * kBytes);
  for (const auto& line : split(result.out, '\n')) EXPECT_LE(line.size(), 256U * 1024 + 11);
  EXPECT_EQ(files_in(logs())["none_?/attempt_0/1/stdout.log"], std::string(kBytes, 'x') + "\n");
}

TEST_F(RankOutput, IsNotLostWhenTheRankIsKilled) {
  const auto result = launch_with({"--tee", "1", "--log_dir", logs()},
                                  {"1:flood=200000", "1:signal=9", "sleep=60000"});
  EXPECT_EQ(result.exit_code, 137);
  EXPECT_EQ(result.out, "[default1]:" + std::string(200'000, 'x') + "\n");
}

TEST_F(RankOutput, BeginsAnewInAFileThatIsEmptied) {
  const std::string again = folder_.path() / "again", marks = folder_.path() / "marks";
  fs::create_directory(marks);
  Background launcher(command({"--tee", "1:1", "--log_dir", logs()},
                              probe({"1:print=one", "1:print=two", "mark=" + marks,
                                     "await=" + again, "1:print=3"})),
                      folder_.path() / "out");
  ASSERT_TRUE(eventually([&] { return entries(marks) == 2; }, 20s));
  const fs::path log = fs::directory_iterator(logs())->path() / "attempt_0" / "1" / "stdout.log";
  EXPECT_TRUE(eventually([&] { return text_of(folder_.path() / "out").ends_with("two\n"); }, 20s));
  fs::resize_file(log, 0);
  folder_.write("again", "");
  EXPECT_EQ(launcher.wait(20s), 0);
  EXPECT_EQ(text_of(log), "3\n");
  EXPECT_EQ(text_of(folder_.path() / "out"), "[default1]:one\n[default1]:two\n[default1]:3\n");
}

// The terminal takes nothing: the ranks end all the same, and the launcher still hears signals.
TEST_F(RankOutput, DoesNotWaitForASlowTerminal) {
  const std::string marks = folder_.path() / "marks";
  fs::create_directory(marks);
  std::string line = "exec";
  for (const auto& word :
       command({"--tee", "1", "--log_dir", logs()}, probe({"flood=4000000", "mark=" + marks})))
    line += " '" + word + "'";
  Background launcher({"/bin/bash", "-c", line + " > >(exec sleep 20)"}, folder_.path() / "out");
  ASSERT_TRUE(eventually([&] { return entries(marks) == 2; }, 20s)) << "a rank was stopped";
  EXPECT_EQ(launcher.wait(300ms), -1) << "not everything has been shown";
  launcher.signal(SIGTERM);
  EXPECT_EQ(launcher.wait(10s), 0);
}

TEST_F(RankOutput, IsShownUntilTheEndAfterAnInterruption) {
  const std::string marks = folder_.path() / "marks";
  fs::create_directory(marks);
  Background launcher(command({"--tee", "1", "--log_dir", logs()},
                              probe({"catch=2", "mark=" + marks, "sleep=60000"})),
                      folder_.path() / "out");
  ASSERT_TRUE(eventually([&] { return entries(marks) == 2; }, 20s));
  launcher.signal(SIGINT);
  EXPECT_EQ(launcher.wait(20s), 130);
  EXPECT_EQ(sorted_lines(text_of(folder_.path() / "out")),
            (Words{"", "[default0]:caught 2", "[default1]:caught 2"}));
}

TEST_F(RankOutput, KeepsNoProcessWhenTheLauncherIsKilled) {
  const std::string marks = folder_.path() / "marks";
  fs::create_directory(marks);
  Background launcher(
      command({"--tee", "3", "--log_dir", logs()}, probe({"mark=" + marks, "sleep=60000"})),
      folder_.path() / "out");
  ASSERT_TRUE(eventually([&] { return entries(marks) == 2; }, 20s));
  EXPECT_EQ(processes_tagged(tag_), 6);  // the launcher, its guardian, two that show, two ranks
  launcher.signal(SIGKILL);
  EXPECT_EQ(launcher.wait(20s), 137);
}

TEST_F(RankOutput, GoesOnWhenTheReaderHasLeft) {
  std::string line;
  for (const auto& word : command({"--tee", "1", "--log_dir", logs()},
                                  probe({"print=a", "sleep=300", "flood=200000"})))
    line += " '" + word + "'";
  const auto result =
      run_program({"/bin/bash", "-c", line + " | true; exit ${PIPESTATUS[0]}"}, options_);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(files_in(logs())["none_?/attempt_0/0/stdout.log"].size(), 200'002U);
}

TEST_F(RankOutput, OfEachAttemptHasAFolder) {
  LaunchPlan plan = probe_plan(1, {tag_, "print=again"});
  plan.attempt = 2;
  plan.output.ranks = {{.out = Destination::file}};
  EXPECT_NE(message_of<LaunchError>([&] { launch(plan); }).find("no folder"), std::string::npos);
  plan.output.folder = folder_.path();
  launch(plan);
  EXPECT_EQ(text_of(folder_.path() / "attempt_2/0/stdout.log"), "again\n");
  plan.output.ranks.emplace_back();
  EXPECT_NE(message_of<LaunchError>([&] { launch(plan); }).find("streams for 2"),
            std::string::npos);
}

TEST_F(RankOutput, IsRefusedWithASentenceWhereItCannotGo) {
  folder_.write("file", "");
  const auto refused = [&](const Words& flags) {
    const auto result = launch_with(flags, {});
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  EXPECT_NE(refused({"--log_dir", "file"}).find("--log_dir is 'file', and that is a file."),
            std::string::npos);
  EXPECT_NE(
      refused({"--log_dir", "file/below"}).find("--log_dir is 'file/below', and it cannot be"),
      std::string::npos);
  EXPECT_NE(refused({"--log_dir", "/proc/below"}).find("--log_dir is '/proc/below', and it cannot"),
            std::string::npos);
  EXPECT_NE(refused({"--tee", "7"}).find("--tee is '7'; write 0 (neither)"), std::string::npos);
  EXPECT_NE(refused({"-r", "2:1"}).find("--redirects is '2:1', which names local rank 2"),
            std::string::npos);
  options_.env["TMPDIR"] = folder_.path() / "absent";
  EXPECT_NE(refused({"--tee", "1"}).find("Pass --log_dir FOLDER"), std::string::npos);
  EXPECT_EQ(launch_with({}, {}).exit_code, 0) << "error files are not worth a failure";
}

// --- What ended a rank ---------------------------------------------------------------------------

class RankError : public RankOutput {
 protected:
  RunResult launch_failing(const Words& flags, const std::string& kind) {
    return run_program(command(flags, {std::string(ACCELERATE_BINARY_DIR) + "/tests/failing_probe",
                                       kind, "no row"}),
                       options_);
  }
};

TEST_F(RankError, OfANativeProgramIsNamed) {
  const auto says = [&](const char* kind, const std::string& message) {
    const auto result = launch_failing({}, kind);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_TRUE(std::regex_search(
        result.err,
        std::regex("accelerate: rank 1 \\(pid \\d+\\) exited with code 1 after .* s: " + message)))
        << result.err;
  };
  says("ours", "DataError: no row\n");
  says("nested", "ConfigError: no row\n      because: line 3 is empty\n");
  says("standard", "std::out_of_range: no row\n");
  says("foreign", "Error: an exception that is not a std::exception was thrown\n");
}

TEST_F(RankError, IsKeptInTheLogFolder) {
  const auto result = launch_failing({"--log_dir", logs()}, "ours");
  const auto files = files_in(logs());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_NE(files.at("none_?/attempt_0/1/error.json").find("\"DataError: no row\""),
            std::string::npos);
  EXPECT_NE(result.err.find("  what ranks write is in '" + logs() + "/none_"), std::string::npos);
  EXPECT_EQ(entries(temporary()), 0);
}

TEST_F(RankError, OfAnyProgramIsRead) {
  const auto result = launch_shell(
      {},
      R"(test $RANK = 0 && exec sleep 60; echo '{"message": "told"}' > $TORCHELASTIC_ERROR_FILE; exit 4)");
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_TRUE(std::regex_search(result.err, std::regex("exited with code 4 after .* s: told\n")))
      << result.err;
}

TEST_F(RankError, OfASingleProcessIsItsOwn) {
  options_.env["TORCHELASTIC_ERROR_FILE"] = "of-an-outer-launcher";
  const auto run = [&](Words flags) {
    Words words = {accelerate_program(), "launch", "--cpu"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"/bin/sh", "-c", "echo $TORCHELASTIC_ERROR_FILE"});
    return run_program(words, options_).out;
  };
  EXPECT_EQ(run({}), "of-an-outer-launcher\n");
  EXPECT_TRUE(run({"--log_dir", "logs"}).ends_with("/attempt_0/0/error.json\n"));
  EXPECT_TRUE(run({"--log_dir", "logs"}).starts_with(logs())) << "an absolute path";
}

}  // namespace
}  // namespace accelerate::testing
