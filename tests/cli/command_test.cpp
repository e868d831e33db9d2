// The built command, as a user meets it: exit codes, messages, and nothing left behind.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "accelerate/base/machine/cpu_affinity.h"
#include "accelerate/base/machine/gpus.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/flags.h"
#include "accelerate/launch/port.h"
#include "tests/launch/support.h"
#include "tests/support/support.h"

namespace accelerate::testing {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Words = std::vector<std::string>;

// No configuration file of the machine and no variable of an outer launch may reach the command.
class Command : public ::testing::Test {
 protected:
  Command() {
    options_.timeout = 10s;
    options_.env = {{"HF_HOME", folder_.path() / "home"},
                    {"OMP_NUM_THREADS", ""},
                    {"ACCELERATE_CPU_AFFINITY", ""},
                    {"GOMP_CPU_AFFINITY", ""}};
    options_.working_directory = folder_.path();
  }

  RunResult accelerate(Words words) {
    words.insert(words.begin(), accelerate_program());
    return run_program(words, options_);
  }

  TemporaryFolder folder_;
  RunOptions options_;
};

TEST_F(Command, ShowsItsCommands) {
  const auto help = accelerate({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* name : {"env", "launch"}) EXPECT_NE(help.out.find(name), std::string::npos);
}

TEST_F(Command, WithoutACommandShowsHelpAndFails) {
  const auto result = accelerate({});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.out.find("Usage: accelerate"), std::string::npos);
}

TEST_F(Command, WithNothingButAnEndOfFlagsShowsHelpAndFails) {
  const auto result = accelerate({"--"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.out.find("Usage: accelerate"), std::string::npos);
}

TEST_F(Command, TellsItsVersion) {
  EXPECT_TRUE(std::regex_match(
      accelerate({"--version"}).out,
      std::regex("accelerate \\d+\\.\\d+\\.\\d+( \\(commit [0-9a-f]{12}(-dirty)?\\))?\n"
                 "built with(out)? LibTorch.*\n")));
}

TEST_F(Command, AnswersToTheOriginalsOtherNames) {
  for (const std::string name : {"launch", "config", "merge-weights"}) {
    const auto linked = run_program({accelerate_program() + "-" + name, "--help"}, options_);
    EXPECT_EQ(linked.exit_code, 0) << name;
    EXPECT_EQ(linked.out, accelerate({name, "--help"}).out);
  }
}

TEST_F(Command, ShowsEveryFlagOfLaunch) {
  const auto help = accelerate({"launch", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.err, "");
  for (const auto& flag : launch_flags()) {
    EXPECT_NE(help.out.find("--" + flag.name), std::string::npos) << flag.name;
  }
}

TEST_F(Command, GivesTheProgramItsArgumentsUntouched) {
  const auto result =
      accelerate({"launch", "--num_processes", "1", "/bin/echo", "--cpu", "-q", "--", "a b", ""});
  EXPECT_EQ(result.out, "--cpu -q -- a b \n");
}

class Affinity : public Command {
 protected:
  // The CPUs that each rank's threads may run on, from rank 0 up.
  Words cpus_of_ranks(int ranks, Words before = {}, const Words& flags = {}) {
    const fs::path reports = folder_.path() / std::to_string(reports_++);
    fs::create_directory(reports);
    Words words = std::move(before);
    for (const auto& word : {accelerate_program(), std::string("launch"),
                             "--num_processes=" + std::to_string(ranks)}) {
      words.push_back(word);
    }
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {probe_program(), "cpus=" + reports.string()});
    result_ = run_program(words, options_);
    EXPECT_EQ(result_.exit_code, 0) << result_.err;
    Words cpus;
    for (int rank = 0; rank < ranks; ++rank) {
      cpus.push_back(text_of(reports / std::to_string(rank)));
    }
    return cpus;
  }

  static Words expected(int ranks, const CpuList& allowed) {
    Words cpus;
    for (const auto& share : divide_cores(cpu_cores({}, allowed), ranks)) {
      cpus.push_back(cpu_list_text(share.cpus));
    }
    return cpus;
  }

  void SetUp() override {
    if (gpu_count() > 0)
      GTEST_SKIP() << "needs a machine with no GPU: on GPUs ranks are bound when they ask";
    if (physical_cores() < 2) GTEST_SKIP() << "needs two cores";
  }

  const CpuList allowed_ = allowed_cpus().value();
  RunResult result_;
  int reports_ = 0;
};

TEST_F(Affinity, EveryThreadOfARankKeepsToTheRanksCores) {
  EXPECT_EQ(cpus_of_ranks(2), expected(2, allowed_));
}

TEST_F(Affinity, AProcessAloneMayRunEverywhere) {
  EXPECT_EQ(cpus_of_ranks(1), (Words{cpu_list_text(allowed_)}));
}

TEST_F(Affinity, MoreRanksThanCoresMayRunEverywhere) {
  const int many = physical_cores() + 1;
  EXPECT_EQ(cpus_of_ranks(many, {}, {"--debug"}),
            Words(static_cast<std::size_t>(many), cpu_list_text(allowed_)));
  EXPECT_NE(result_.err.find("ranks are not bound to cores: "), std::string::npos) << result_.err;
}

TEST_F(Affinity, IsRefusedByAFlag) {
  EXPECT_EQ(cpus_of_ranks(2, {}, {"--no_cpu_affinity"}), Words(2, cpu_list_text(allowed_)));
}

TEST_F(Affinity, StaysWithinWhatTheLauncherMayUse) {
  const CpuList two = {allowed_.front(), allowed_.back()};
  const Words taskset = {"taskset", "-c", cpu_list_text(two)};
  if (run_program({"taskset", "--version"}).exit_code != 0) GTEST_SKIP() << "no taskset here";
  EXPECT_EQ(cpus_of_ranks(2, taskset), expected(2, two));
  const std::string one = std::to_string(allowed_.back());
  EXPECT_EQ(cpus_of_ranks(2, {"taskset", "-c", one}), Words(2, one));
}

TEST_F(Affinity, IsToldWhenDebugging) {
  const auto cpus = cpus_of_ranks(2, {}, {"--debug"});
  EXPECT_NE(result_.err.find("rank 1 keeps to CPU"), std::string::npos) << result_.err;
  options_.env["ACCELERATE_LOG_LEVEL"] = "info";
  EXPECT_EQ(cpus_of_ranks(2), cpus);
  EXPECT_NE(result_.err.find("rank 1 keeps to CPU"), std::string::npos) << result_.err;
}

TEST_F(Affinity, OfBothKindsIsRefused) {
  const auto result = accelerate(
      {"launch", "--enable_cpu_affinity", "--no_cpu_affinity", probe_program(), "exit=0"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("exclude each other"), std::string::npos) << result.err;
}

TEST_F(Command, GivesRankZeroItsInputAndTheOthersNone) {
  const auto result = run_program({"/bin/sh", "-c",
                                   "echo hello | " + accelerate_program() +
                                       " launch --num_processes 2 " + probe_program() + " read"},
                                  options_);
  EXPECT_EQ(result.out, "hello\n");
}

TEST_F(Command, PassesLargeOutputOn) {
  EXPECT_EQ(
      accelerate({"launch", "--num_processes", "2", probe_program(), "flood=3000000"}).out.size(),
      6'000'000U);
}

TEST_F(Command, WaitsForRanksThatCloseTheirOutput) {
  EXPECT_EQ(
      accelerate({"launch", "--num_processes", "2", probe_program(), "close", "sleep=50", "exit=4"})
          .exit_code,
      4);
}

TEST_F(Command, WorksWithClosedStandardDescriptors) {
  const auto result = run_program({"/bin/sh", "-c",
                                   accelerate_program() + " launch --num_processes 2 " +
                                       probe_program() + " 1:exit=6 <&- >&- 2>&-"},
                                  options_);
  EXPECT_EQ(result.exit_code, 6);
}

TEST_F(Command, SurvivesAReaderThatHasLeft) {
  const auto result =
      run_program({"/bin/bash", "-c",
                   accelerate_program() + " launch --num_processes 2 " + probe_program() +
                       " 1:sleep=100 1:exit=6 sleep=60000 2>&1 | true; exit ${PIPESTATUS[0]}"},
                  options_);
  EXPECT_EQ(result.exit_code, 6);
}

TEST_F(Command, ReportsTheRankThatFailed) {
  const auto result =
      accelerate({"launch", "--num_processes", "2", probe_program(), "1:signal=11", "sleep=60000"});
  EXPECT_EQ(result.exit_code, 139);
  EXPECT_TRUE(std::regex_search(
      result.err, std::regex("rank 1 \\(pid \\d+\\) was killed by SIGSEGV .* after \\d+\\.\\d s")))
      << result.err;
  EXPECT_NE(result.err.find("rank 0 ended when the launcher said so"), std::string::npos);
}

TEST_F(Command, IsQuietWhenAsked) {
  const auto result =
      accelerate({"launch", "-q", "--num_processes", "2", probe_program(), "1:exit=3"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.err, "");
}

TEST_F(Command, TakesAFreePortWhenTheOneAskedForIsTaken) {
  const int port = free_port("127.0.0.1");
  const std::string taken = std::to_string(port);
  const auto result = accelerate({"launch", "--num_processes", "2", "--main_process_port", taken,
                                  "/bin/sh", "-c", "echo $MASTER_PORT"});
  EXPECT_EQ(result.out, taken + "\n" + taken + "\n");
  const auto busy =
      run_program({ACCELERATE_SOURCE_DIR "/tests/launch/with_busy_port.py", taken,
                   accelerate_program(), "launch", "--num_processes", "2", "--main_process_port",
                   taken, "/bin/sh", "-c", "echo $MASTER_PORT"},
                  options_);
  EXPECT_EQ(busy.exit_code, 0);
  EXPECT_EQ(busy.out.find(taken), std::string::npos);
  EXPECT_NE(busy.err.find("main_process_port " + taken + " is taken"), std::string::npos)
      << busy.err;
}

TEST_F(Command, PrintsTheEnvironment) {
  const auto result = accelerate({"env"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* line :
       {"- `Accelerate` version: ", "- Platform: Linux-", "- System RAM: ",
        "- Communication on the CPU: ", "- `Accelerate` default config:\n\tNot found\n"}) {
    EXPECT_NE(result.out.find(line), std::string::npos) << result.out;
  }
}

TEST_F(Command, PrintsTheConfigurationItWasGiven) {
  const std::string file =
      folder_.write("c.yaml", "distributed_type: MULTI_CPU\nnum_processes: 2\n");
  for (const char* flag : {"--config_file", "--config-file"}) {
    const auto result = accelerate({"env", flag, file});
    EXPECT_NE(result.out.find("- `Accelerate` config passed:\n"), std::string::npos);
    EXPECT_NE(result.out.find("\t- num_processes: 2\n"), std::string::npos) << result.out;
  }
}

struct BadInput {
  Words words;
  int exit_code;
  std::string message;  // a regular expression
};

class BadInputs : public Command {
 protected:
  BadInputs() {
    folder_.write("notes.txt", "text");
    folder_.write("unknown_key.yaml", "distributed_type: 'NO'\nnum_procesess: 2\n");
    folder_.write("nested.yaml",
                  "distributed_type: FSDP\nfsdp_config:\n  fsdp_offload_parms: true\n");
    folder_.write("escape.yaml", "num_processes: \"\\e[31mred\"\n");
    folder_.write("broken.yaml", "distributed_type: [\n");
    folder_.write("ask.yaml", "distributed_type: MULTI_CPU\nnum_processes: -1\n");
    chmod(folder_.write("text", "not a program").c_str(), 0755);
    chmod(folder_.write("lost", "#!/no/such/interpreter\n").c_str(), 0755);
    std::filesystem::create_symlink("nowhere", folder_.path() / "dangling.py");
    std::filesystem::create_directory(folder_.path() / "folder");
    mkfifo((folder_.path() / "pipe").c_str(), 0600);
  }
};

TEST_F(BadInputs, EndInASentenceWithTheValueAndTheCureAndLeaveNothing) {
  const std::string tag = unique_tag();
  const std::string probe = probe_program();
  const std::vector<BadInput> rows = {
      {{"launch"}, 2, "no program to launch: write `accelerate launch"},
      {{"launch", "--cpu"}, 2, "no program to launch"},
      {{"launch", "./absent"}, 127, "no program './absent'"},
      {{"launch", "absent-program"}, 127, "'absent-program' in PATH"},
      {{"launch", "notes.txt"}, 127, "write './notes.txt'"},
      {{"launch", "./notes.txt"}, 126, "chmod \\+x ./notes.txt"},
      {{"launch", "."}, 126, "folder|not in PATH"},
      {{"launch", "./text"}, 126, "'./text': Exec format error.*#!/bin/sh"},
      {{"launch", "./lost"}, 126, "'./lost': No such file.*interpreter"},
      {{"launch", "absent.py"}, 127, "no program 'absent.py'"},
      {{"launch", "dangling.py"},
       127,
       "'dangling.py' is a link to 'nowhere', which does not exist"},
      {{"config", "default", "--config_file", "folder"}, 2, "'folder' is a folder; name a file in"},
      {{"config", "default", "--config_file", "pipe"}, 2, "'pipe' is a device or a pipe"},
      {{"config", "default", "--config_file", "/dev/null"}, 2, "'/dev/null' is a device or a pipe"},
      {{"config", "default", "--config_file", std::string(300, 'a')},
       1,
       "cannot look at '.*too long"},
      {{"launch", "--num_processes", "0", probe, tag},
       2,
       "--num_processes is '0'; it must lie between 1"},
      {{"launch", "--num_processes", "-2", probe, tag}, 2, "'-2'"},
      {{"launch", "--num_processes", "two", probe, tag}, 2, "'two'; it must be a whole number"},
      {{"launch", "--num_processes", "1000000", probe, tag}, 2, "'1000000'.*4096"},
      {{"launch", "--num_proceses", "2", probe, tag},
       2,
       "'--num_proceses'. Did you mean '--num_processes'"},
      {{"launch", "--num_processes"}, 2, "--num_processes needs a value"},
      {{"launch", "--mixed_precision", "bf61", probe, tag},
       2,
       "'bf61'.*no, fp16, bf16, fp8.*'bf16'"},
      {{"launch", "--cpu", "--multi_gpu", probe, tag},
       2,
       "--cpu and --multi_gpu exclude each other"},
      {{"launch", "--num_machines", "2", probe, tag},
       2,
       "--num_machines is '2'.*--main_process_ip"},
      {{"launch", "--max_restarts", "-3", probe, tag}, 2, "--max_restarts is '-3'"},
      {{"launch", "--tpu", probe, tag}, 2, "--tpu.*Leave it out"},
      {{"launch", "--gpu_ids", "a", probe, tag}, 2, "'a'.*0,2,3"},
      {{"launch", "--grace_period", "-1", probe, tag}, 2, "--grace_period is '-1.0'"},
      {{"launch", "--main_process_port", "70000", probe, tag}, 2, "'70000'.*65535"},
      {{"launch", "--num_processes", "2", "--main_process_ip", "192.0.2.1", probe, tag},
       2,
       "'192.0.2.1'.*not an address of this machine"},
      {{"launch", "--num_processes", "2", "--main_process_ip", "no.such.host.invalid", probe, tag},
       2,
       "'no.such.host.invalid'"},
      {{"launch", "-m", "--no_python", "x"}, 2, "use one of them"},
      {{"launch", "--config_file", "absent.yaml", probe, tag}, 2, "absent.yaml"},
      {{"launch", "--config_file", "unknown_key.yaml", probe, tag},
       2,
       "num_procesess.*num_processes"},
      {{"launch", "--config_file", "nested.yaml", probe, tag},
       2,
       "fsdp_offload_parms.*fsdp_offload_params"},
      {{"launch", "--config_file", "broken.yaml", probe, tag}, 2, "broken.yaml"},
      {{"launch", "--config_file", "escape.yaml", probe, tag},
       2,
       "'num_processes' is '\\?\\[31mred'"},
      {{"launch", "--config_file", ".", probe, tag}, 2, "file"},
      {{"launch", "--config_file", "", probe, tag}, 2, "--config_file is ''.*unset"},
      {{"env", "--config_file", ""}, 2, "--config_file is ''.*unset"},
      {{"config", "default", "--config_file", ""}, 2, "--config_file is ''.*unset"},
      {{"config", "update", "--config_file", ""}, 2, "--config_file is ''.*unset"},
      {{"launch", "--config_file", "ask.yaml", probe, tag}, 2, "ask.yaml.*--num_processes N"},
      {{"lauch"}, 2, "no command 'lauch'. Did you mean 'launch'"},
      {{"env", "--config_file", "absent.yaml"}, 2, "absent.yaml"},
      {{"env", "--nonsense"}, 2, "nonsense"}};
  options_.timeout = 30s;
  for (const auto& row : rows) {
    const auto result = accelerate(row.words);
    const std::string shown = join(row.words, " ");
    EXPECT_EQ(result.exit_code, row.exit_code) << shown << "\n" << result.err;
    std::string line = result.err;
    std::ranges::replace(line, '\n', ' ');
    EXPECT_TRUE(std::regex_search(line, std::regex(row.message))) << shown << "\n" << result.err;
    EXPECT_EQ(result.out, "") << shown;
  }
  EXPECT_EQ(processes_tagged(tag), 0);
  EXPECT_EQ(entries(folder_.path()), 11);
}

}  // namespace
}  // namespace accelerate::testing
