#include "cli/commands/commands.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/launch/config/cluster_config.h"
#include "tests/support/files.h"
#include "tests/support/support.h"

namespace accelerate::cli {
namespace {

using testing::accelerate_program;
using testing::file_text;
using testing::run_program;
using testing::RunResult;
using testing::TemporaryFolder;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// `accelerate config WORDS…` with a cache of its own and without GPUs.
RunResult config(const TemporaryFolder& folder, std::vector<std::string> words) {
  words.insert(words.begin(), {accelerate_program(), "config"});
  return run_program(words,
                     {.env = {{"HF_HOME", folder.path().string()}, {"CUDA_VISIBLE_DEVICES", "-1"}},
                      .timeout = std::chrono::seconds(5),
                      .working_directory = {}});
}

TEST(ConfigDefault, WritesYamlForACpuMachine) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "accelerate" / "default_config.yaml";
  const RunResult result = config(folder, {"default"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "accelerate configuration saved at " + file.string() + "\n");
  EXPECT_TRUE(file_text(file).starts_with(
      "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: 'NO'\n"));
  const ClusterConfig written = load_cluster_config(file);
  EXPECT_TRUE(written.use_cpu);
  EXPECT_EQ(written.num_processes, 1);
  EXPECT_EQ(written.mixed_precision, MixedPrecision::no);
}

TEST(ConfigDefault, TakesEveryGpu) {
  const TemporaryFolder folder;
  std::ostringstream out;
  const auto one = folder.path() / "one.yaml", four = folder.path() / "four.json";
  run_config_default({.config_file = one, .mixed_precision = MixedPrecision::bf16, .num_gpus = 1},
                     out);
  run_config_default({.config_file = four, .mixed_precision = MixedPrecision::fp16, .num_gpus = 4},
                     out);
  EXPECT_EQ(load_cluster_config(one).distributed_type, DistributedType::NO);
  EXPECT_FALSE(load_cluster_config(one).use_cpu);
  EXPECT_EQ(load_cluster_config(four).distributed_type, DistributedType::MULTI_GPU);
  EXPECT_EQ(load_cluster_config(four).num_processes, 4);
  EXPECT_EQ(load_cluster_config(four).mixed_precision, MixedPrecision::fp16);
  EXPECT_EQ(file_text(four).front(), '{');
}

TEST(ConfigDefault, LeavesAnExistingFileAlone) {
  const TemporaryFolder folder;
  const auto file = folder.write("mine.yaml", "distributed_type: NO\n");
  const RunResult result = config(folder, {"default", "--config-file", file.string()});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(contains(result.out, file.string())) << result.out;
  EXPECT_TRUE(contains(result.out, "left as it is")) << result.out;
  EXPECT_EQ(file_text(file), "distributed_type: NO\n");
}

TEST(ConfigDefault, PythonAccelerateLoadsTheFile) {
  const std::string python = ACCELERATE_SOURCE_DIR "/.venv/bin/python";
  if (access(python.c_str(), X_OK) != 0) {
    ASSERT_EQ(std::getenv("CI"), nullptr) << "no " << python;
    GTEST_SKIP() << "needs Python with accelerate in .venv";
  }
  const TemporaryFolder folder;
  ASSERT_EQ(config(folder, {"default", "--mixed_precision=bf16"}).exit_code, 0);
  const RunResult result = run_program(
      {python, "-c",
       "from accelerate.commands.config.config_args import load_config_from_file\n"
       "c = load_config_from_file(None)\n"
       "print(c.distributed_type.value, c.num_processes, c.mixed_precision, c.use_cpu)"},
      {.env = {{"HF_HOME", folder.path().string()}},
       .timeout = std::chrono::seconds(60),
       .working_directory = {}});
  EXPECT_EQ(result.out, "NO 1 bf16 True\n") << result.err;
}

TEST(ConfigUpdate, RewritesLegacyKeysAndDefaults) {
  const TemporaryFolder folder;
  const auto file = folder.write(
      "old.yaml", "{\"distributed_type\": \"MULTI_GPU\", \"fp16\": true, \"num_processes\": 2}");
  const RunResult result = config(folder, {"update", "--config_file=" + file.string()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "Successfully updated the configuration file at " + file.string() + ".\n");
  EXPECT_TRUE(contains(file_text(file), "mixed_precision: fp16\n"));
  EXPECT_TRUE(contains(file_text(file), "same_network: false\n"));
}

TEST(ConfigUpdate, LeavesABadFileAsItWas) {
  const TemporaryFolder folder;
  const auto file = folder.write("bad.yaml", "distributed_type: NO\nnum_proceses: 2\n");
  const RunResult result = config(folder, {"update", "--config_file", file.string()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(
      contains(result.err, "line 2: unknown key 'num_proceses'. Did you mean 'num_processes'?"))
      << result.err;
  EXPECT_EQ(file_text(file), "distributed_type: NO\nnum_proceses: 2\n");
}

struct BadCommand {
  const char* what;
  std::vector<std::string> words;
  int exit_code;
  const char* message;
};

class BadConfigCommands : public ::testing::TestWithParam<BadCommand> {};

TEST_P(BadConfigCommands, EndInASentenceAndWriteNothing) {
  const TemporaryFolder folder;
  const RunResult result = config(folder, GetParam().words);
  EXPECT_EQ(result.exit_code, GetParam().exit_code);
  EXPECT_TRUE(contains(result.err, GetParam().message)) << result.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadConfigCommands,
    ::testing::Values(
        BadCommand{"UnknownWord", {"defualt"}, 2, "Did you mean 'default'?"},
        BadCommand{"UnknownFlag",
                   {"default", "--config_fil", "x.yaml"},
                   2,
                   "Did you mean '--config_file'?"},
        BadCommand{
            "UnknownFlagOfUpdate", {"update", "--mixed_precision", "no"}, 2, "'--mixed_precision'"},
        BadCommand{"BadPrecision",
                   {"default", "--mixed_precision", "fp8"},
                   2,
                   "--mixed_precision is 'fp8'; allowed is one of no, fp16, bf16"},
        BadCommand{"MissingValue", {"default", "--config_file"}, 2, "--config_file"},
        BadCommand{"MissingFile",
                   {"update", "--config_file", "/nowhere/x.yaml"},
                   2,
                   "'/nowhere/x.yaml' does not exist"},
        BadCommand{"MissingDefaultFile", {"update"}, 2, "default_config.yaml' does not exist"},
        BadCommand{
            "NotWritable", {"default", "--config_file", "/proc/x.yaml"}, 2, "cannot be written"}),
    [](const auto& info) { return std::string(info.param.what); });

TEST(Config, HelpNamesTheSubcommands) {
  const TemporaryFolder folder;
  const RunResult result = config(folder, {"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(contains(result.out, "default")) << result.out;
  EXPECT_TRUE(contains(result.out, "update")) << result.out;
}

}  // namespace
}  // namespace accelerate::cli
