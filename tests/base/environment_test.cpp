#include "accelerate/base/environment.h"

#include <gtest/gtest.h>

#include "accelerate/base/error.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::ScopedEnv;

TEST(Environment, BooleansAreUpstreams) {
  for (const char* yes : {"y", "yes", "t", "true", "on", "1", "TRUE", "True", "On"}) {
    EXPECT_EQ(parse_bool(yes), true) << yes;
  }
  for (const char* no : {"n", "no", "f", "false", "off", "0", "False", "NO"}) {
    EXPECT_EQ(parse_bool(no), false) << no;
  }
  for (const char* neither : {"", "2", "maybe", "yes ", "none"}) {
    EXPECT_EQ(parse_bool(neither), std::nullopt) << neither;
  }
}

TEST(Environment, FlagNamesTheVariableAndTheValue) {
  const ScopedEnv scope("ACCELERATE_TEST_FLAG", "perhaps");
  try {
    (void)env_flag("ACCELERATE_TEST_FLAG", false);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("ACCELERATE_TEST_FLAG is 'perhaps'"),
              std::string::npos);
  }
}

TEST(Environment, EmptyIsUnset) {
  const ScopedEnv scope("ACCELERATE_TEST_FLAG", "");
  EXPECT_TRUE(env_flag("ACCELERATE_TEST_FLAG", true));
  EXPECT_EQ(env("ACCELERATE_TEST_FLAG"), std::nullopt);
}

TEST(Environment, IntegersAreWhole) {
  const ScopedEnv good("ACCELERATE_TEST_A", "-7");
  const ScopedEnv bad("ACCELERATE_TEST_B", "7x");
  EXPECT_EQ(env_int("ACCELERATE_TEST_A"), -7);
  EXPECT_THROW((void)env_int("ACCELERATE_TEST_B"), ConfigError);
  EXPECT_EQ(env_int_first({"ACCELERATE_TEST_NONE", "ACCELERATE_TEST_A"}), -7);
}

}  // namespace
}  // namespace accelerate
