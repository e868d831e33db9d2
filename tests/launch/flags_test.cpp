#include "accelerate/launch/flags.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

std::string checked(const char* name, const char* text) {
  return checked_value(*find_flag(name), text, std::string("--") + name);
}

TEST(FlagValue, IsWrittenAsUpstreamWritesIt) {
  EXPECT_EQ(checked("num_processes", "+4"), "4");
  EXPECT_EQ(checked("megatron_lm_gradient_clipping", "1"), "1.0");
  EXPECT_EQ(checked("megatron_lm_no_load_optim", "yes"), "True");
  EXPECT_EQ(checked("fsdp_offload_params", "TRUE"), "TRUE");
  EXPECT_EQ(checked("fp8_pad_inner_dim", "on"), "1");
}

TEST(FlagValue, OfTheWrongKindIsRefusedWithTheValueAndTheAllowedOnes) {
  const std::vector<std::tuple<const char*, const char*, const char*>> rows = {
      {"num_processes", "two", "--num_processes is 'two'; it must be a whole number"},
      {"num_processes", "", "''"},
      {"num_processes", "99999999999999999999", "whole number"},
      {"mixed_precision", "bf61", "Did you mean 'bf16'"},
      {"grace_period", "inf", "must be a number"},
      {"fsdp_offload_params", "maybe", "true or false"},
      {"fp8_format", "E5M3", "HYBRID, E4M3, E5M2"}};
  for (const auto& [name, text, message] : rows) {
    try {
      checked(name, text);
      ADD_FAILURE() << name << " took '" << text << "'";
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
}

TEST(PythonFloat, WritesWhatPythonWrites) {
  const std::vector<std::pair<double, const char*>> rows = {
      {1, "1.0"},         {0, "0.0"},
      {0.1, "0.1"},       {1e-5, "1e-05"},
      {0.0001, "0.0001"}, {1e5, "100000.0"},
      {1e16, "1e+16"},    {123456789012345680.0, "1.2345678901234568e+17"},
      {-2.5, "-2.5"}};
  for (const auto& [value, text] : rows) EXPECT_EQ(python_float(value), text);
}

TEST(FlagTable, HasNoNameAndNoLetterTwice) {
  std::set<std::string> names;
  std::set<char> letters;
  for (const auto& flag : launch_flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_TRUE(flag.letter == '\0' || letters.insert(flag.letter).second) << flag.letter;
  }
}

TEST(FlagTable, SaysWhatEachFlagIsFor) {
  for (const auto& flag : launch_flags()) {
    EXPECT_TRUE(flag.help.ends_with('.')) << flag.name;
    EXPECT_EQ(flag.kind == FlagKind::choice, !flag.choices.empty()) << flag.name;
  }
}

}  // namespace
}  // namespace accelerate
