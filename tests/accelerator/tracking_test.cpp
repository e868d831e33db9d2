// The facade's tracking, on one rank and on two.
#include <gtest/gtest.h>

#include <algorithm>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::run_ranks_shared;
using testing::TemporaryFolder;

TEST(AcceleratorTracking, OnlyTheMainProcessWrites) {
  const TemporaryFolder folder;
  run_ranks_shared(2, [&](std::shared_ptr<Communicator> group) {
    Accelerator accelerator({.log_with = {"jsonl", "tensorboard"},
                             .project_dir = folder.path(),
                             .communicator = std::move(group)});
    accelerator.init_trackers("run", {{"lr", 0.1}, {"name", "adamw"}});
    accelerator.log({{"loss", 0.5}, {"epoch", 1}}, 3);
    EXPECT_EQ(accelerator.trackers().size(), accelerator.is_main_process() ? 2u : 0u);
    EXPECT_EQ(accelerator.get_tracker("jsonl")->name(), "jsonl");
    EXPECT_THROW((void)accelerator.get_tracker("csv"), UsageError);
    accelerator.end_training();
  });
  const std::string text =
      read_file(real_file_system(), folder.path() / "run" / "metrics.jsonl", 1 << 16);
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_NE(text.find("\"loss\":0.5,\"epoch\":1"), std::string::npos);
}

TEST(AcceleratorTracking, RefusesAWrongTrackerWhenItIsMade) {
  EXPECT_THROW(Accelerator({.log_with = {"tensorbord"}}), ConfigError);
  EXPECT_THROW(Accelerator({.log_with = {"csv"}}), ConfigError);
  EXPECT_THROW(Accelerator({.project_config = {.total_limit = 1}}), ConfigError);
}

TEST(AcceleratorTracking, ProjectConfigurationChoosesTheFolder) {
  const TemporaryFolder folder;
  Accelerator accelerator({.log_with = {"csv"},
                           .project_dir = folder.path(),
                           .project_config = {.logging_dir = folder.path() / "logs"}});
  accelerator.init_trackers("run");
  accelerator.log({{"loss", 0.5}});
  accelerator.end_training();
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "logs" / "run" / "metrics.csv"));
}

}  // namespace
}  // namespace accelerate
