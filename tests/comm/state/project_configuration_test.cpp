#include "accelerate/comm/state/project_configuration.h"

#include <gtest/gtest.h>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

TEST(ProjectConfiguration, GoesByEitherNameOfTheProjectsFolder) {
  EXPECT_EQ(project_directory("a", {}), "a");
  EXPECT_EQ(project_directory("", {.project_dir = "b"}), "b");
  EXPECT_EQ(project_directory("c", {.project_dir = "c"}), "c");
  EXPECT_EQ(project_directory("", {}), "");
}

TEST(ProjectConfiguration, LogsIntoTheProjectUnlessToldWhere) {
  EXPECT_EQ(logging_directory("a", {}), "a");
  EXPECT_EQ(logging_directory("a", {.logging_dir = "logs"}), "logs");
}

struct BadConfiguration {
  ProjectConfiguration config;
  const char* says;
};

TEST(ProjectConfiguration, BadOnesAreConfigErrors) {
  const BadConfiguration cases[] = {
      {{.project_dir = "b"}, "project_dir is 'a' and project_config.project_dir 'b'"},
      {{.total_limit = 3}, "total_limit is 3, which has no effect"},
      {{.automatic_checkpoint_naming = true, .total_limit = 0}, "total_limit is 0; allowed is 1"},
      {{.iteration = -1}, "iteration is -1; allowed is 0"},
  };
  for (const auto& [config, says] : cases) {
    try {
      (void)project_directory("a", config);
      FAIL() << says;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW((void)project_directory("", {.automatic_checkpoint_naming = true}), ConfigError);
}

}  // namespace
}  // namespace accelerate
