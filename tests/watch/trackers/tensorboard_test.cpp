#include "accelerate/watch/trackers/tensorboard_tracker.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>

#include "accelerate/formats/tensorboard/tensorboard_events.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::TemporaryFolder;

// tests/reference/tensorboard_live.py makes the same calls.
void log_everything(TensorBoardTracker& tracker) {
  tracker.store_init_configuration({{"lr", 0.001}, {"batch_size", 32}, {"optimizer", "adamw"}});
  for (int step = 0; step < 5; ++step) {
    tracker.log({{"train/loss", 1.0 / (step + 1)},
                 {"epoch", step / 2},
                 {"note", "step " + std::to_string(step) + ": grüße"},
                 {"accuracy", Scalars{{"train", 0.1 * step}, {"test/a", 0.05 * step}}}},
                step);
  }
  tracker.log({{"odd", std::numeric_limits<double>::quiet_NaN()}}, 7);
  tracker.log({{"odd", std::numeric_limits<double>::infinity()}}, 8);
  tracker.log({{"no_step", 2.5}}, std::nullopt);
  tracker.log({{"weights", Histogram{at::arange(-50, 50).to(at::kDouble) / 7}}}, 3);
  const at::Tensor ramp = at::arange(3 * 5 * 6 * 11).reshape({11, 3, 5, 6});
  tracker.log_images(
      {{"grid", ramp.remainder(256).to(at::kByte)},
       {"single", ramp[0].to(at::kFloat) / 600},
       {"grey", ramp.narrow(0, 0, 2).narrow(1, 0, 1).remainder(7).to(at::kFloat) / 6}},
      4);
}

TEST(TensorBoard, IsReadByTensorBoardAsWhatTorchWrites) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const TemporaryFolder folder;
  TensorBoardTracker tracker({"run", folder.path() / "ours", {}});
  tracker.start();
  log_everything(tracker);
  tracker.finish();
  const auto result = testing::run_program(
      {testing::reference_python(), testing::reference_path("tensorboard_live.py").string(),
       folder.path().string()},
      {.env = {}, .timeout = std::chrono::seconds(100), .working_directory = {}});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(result.out, "equal\n");
}

std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) {
      found.push_back(entry.path());
    }
  }
  return found;
}

TEST(TensorBoard, WritesBelowTheLoggingFolderAndTheNameOfTheRun) {
  const TemporaryFolder folder;
  TensorBoardTracker tracker({"project/7", folder.path(), {}});
  tracker.start();
  tracker.finish();
  const auto files = event_files(folder.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].parent_path(), folder.path() / "project" / "7");
}

TEST(TensorBoard, PartsOfAPlotNeverLeadOutOfTheRun) {
  const TemporaryFolder folder;
  TensorBoardTracker tracker({"run", folder.path() / "logs", {}});
  tracker.start();
  tracker.log({{"../../a", Scalars{{"/../../../b", 1.0}}}}, 1);
  tracker.finish();
  const auto files = event_files(folder.path());
  ASSERT_EQ(files.size(), 2u);
  for (const auto& file : files)
    EXPECT_EQ(*std::next(file.begin(), std::distance(folder.path().begin(), folder.path().end())),
              "logs");
}

// What was logged an interval ago is in the file although the process dies without a word.
TEST(TensorBoard, AKilledRunLosesAtMostTheLastInterval) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    TensorBoardTracker tracker({"run", folder.path(), {{"flush_secs", 0.001}}});
    tracker.start();
    tracker.log({{"loss", 0.5}}, 1);
    for (;;) pause();
  }
  std::string content;
  for (int i = 0; i < 2000 && content.find("loss") == std::string::npos; ++i) {
    usleep(5000);
    if (!std::filesystem::exists(folder.path() / "run")) continue;
    for (const auto& file : event_files(folder.path())) {
      content = read_file(real_file_system(), file, 1 << 20);
    }
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_NE(content.find("loss"), std::string::npos);
}

}  // namespace
}  // namespace accelerate
