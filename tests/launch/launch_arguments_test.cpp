#include "accelerate/launch/flags.h"

#include <gtest/gtest.h>

#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

using Words = std::vector<std::string>;

LaunchArguments split(const Words& words) {
  return split_arguments(words, launch_flags());
}

TEST(SplitArguments, TakesFlagsBeforeTheProgramAndLeavesTheRestAlone) {
  const auto arguments =
      split({"--num_processes", "2", "./train", "--cpu", "--num_processes", "9"});
  EXPECT_EQ(arguments.flags.size(), 1U);
  EXPECT_EQ(arguments.flags.at("num_processes"), "2");
  EXPECT_EQ(arguments.program, (Words{"./train", "--cpu", "--num_processes", "9"}));
}

TEST(SplitArguments, ReadsHyphensUnderscoresAndEqualSignsAlike) {
  for (const Words& words :
       {Words{"--num-processes", "2"}, Words{"--num_processes", "2"}, Words{"--num-processes=2"},
        Words{"--num_processes=2"}, Words{"--num-processes", "7", "--num_processes=2"}}) {
    EXPECT_EQ(split(words).flags.at("num_processes"), "2");
  }
}

TEST(SplitArguments, KeepsHyphensInValues) {
  EXPECT_EQ(split({"--dynamo-mode=max-autotune"}).flags.at("dynamo_mode"), "max-autotune");
  EXPECT_EQ(split({"--rdzv_conf=a=b"}).flags.at("rdzv_conf"), "a=b");
}

TEST(SplitArguments, ReadsLetters) {
  const auto arguments = split({"-q", "-m", "-t", "3", "pack.train"});
  EXPECT_EQ(arguments.flags.at("quiet"), "True");
  EXPECT_EQ(arguments.flags.at("module"), "True");
  EXPECT_EQ(arguments.flags.at("tee"), "3");
  EXPECT_EQ(split({"-t3"}).flags.at("tee"), "3");
  EXPECT_EQ(arguments.program, Words{"pack.train"});
}

TEST(SplitArguments, EndsAtTwoHyphens) {
  EXPECT_EQ(split({"--cpu", "--", "--odd-name", "x"}).program, (Words{"--odd-name", "x"}));
}

TEST(SplitArguments, SeesHelpOnlyAmongOurFlags) {
  EXPECT_TRUE(split({"--cpu", "-h"}).help);
  EXPECT_FALSE(split({"./train", "--help"}).help);
}

TEST(SplitArguments, TakesASingleHyphenForAProgram) {
  EXPECT_EQ(split({"-"}).program, Words{"-"});
}

TEST(SplitArguments, RefusesWithTheWordAndTheCure) {
  const std::vector<std::pair<Words, const char*>> rows = {
      {{"--num_proceses", "2", "x"}, "'--num_proceses'. Did you mean '--num_processes'?"},
      {{"--num-procs", "2", "x"}, "Did you mean '--num_processes'?"},
      {{"--mixed_precison=bf16"}, "Did you mean '--mixed_precision'?"},
      {{"--cpuu", "x"}, "Did you mean '--cpu'?"},
      {{"--num_processe", "2"}, "there is no flag '--num_processe'"},
      {{"--learning_rate", "2"}, "flags of your own program go after its name"},
      {{"-z"}, "there is no flag '-z'"},
      {{"-qm", "x"}, "there is no flag '-qm'"},
      {{"--num_processes"}, "--num_processes needs a value"},
      {{"--num_processes", "--cpu"}, "--num_processes needs a value"},
      {{"--num_processes="}, "--num_processes is ''; it must be a whole number"},
      {{"--num_processes", "2.5"}, "'2.5'"},
      {{"--cpu=true"}, "--cpu is a switch"},
      {{"--mixed_precision", "int8"}, "no, fp16, bf16, fp8"},
      {{"---cpu"}, "there is no flag"}};
  for (const auto& [words, message] : rows) {
    try {
      (void)split(words);
      ADD_FAILURE() << join(words, " ");
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace accelerate
