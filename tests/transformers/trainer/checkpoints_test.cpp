// Which checkpoints stay.
#include <gtest/gtest.h>

#include <cmath>

#include "accelerate/transformers/trainer/checkpoints/checkpoints.h"
#include "accelerate/transformers/trainer/trainer_state.h"
#include "tests/support/support.h"

namespace accelerate::detail {
namespace {

using testing::TemporaryFolder;

struct RotationRow {
  std::vector<int> steps;
  std::int64_t limit;
  int best;  ///< 0: none.
  std::vector<int> removed;
};

// The newest `limit`, and never the best; with 1 both the best and the newest stay.
const std::vector<RotationRow> kRotations{
    {{10, 20, 30}, 2, 0, {10}},      {{10, 20, 30}, 1, 0, {10, 20}},
    {{10, 20, 30}, 1, 30, {10, 20}}, {{10, 20, 30}, 1, 10, {20}},
    {{10, 20, 30}, 2, 10, {20}},     {{10, 20, 30}, 2, 20, {10}},
    {{10, 20, 30}, 3, 10, {}},       {{10, 20, 30, 40}, 2, 10, {20, 30}},
    {{9, 10, 100}, 2, 0, {9}},
};

TEST(Checkpoints, RemovesTheOldestButTheBest) {
  for (const auto& row : kRotations) {
    const TemporaryFolder folder;
    const auto of_step = [&](int step) {
      return folder.path() / ("checkpoint-" + std::to_string(step));
    };
    for (const int step : row.steps) std::filesystem::create_directories(of_step(step));
    std::vector<int> removed;
    for (const auto& one :
         beyond_limit(step_checkpoints(folder.path()), row.limit,
                      row.best == 0 ? std::filesystem::path() : of_step(row.best)))
      removed.push_back(static_cast<int>(one.number));
    EXPECT_EQ(removed, row.removed) << "limit " << row.limit << ", best " << row.best;
  }
}

TEST(Checkpoints, TakesNothingElseForACheckpoint) {
  const TemporaryFolder folder;
  for (const char* name : {"checkpoint-3", "checkpoint-", "checkpoint-3x", "my-checkpoint-4"})
    std::filesystem::create_directories(folder.path() / name);
  folder.write("checkpoint-9", "a file");
  const auto found = step_checkpoints(folder.path());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().number, 3);
  EXPECT_TRUE(step_checkpoints(folder.path() / "absent").empty());
}

// Python writes what JSON has no numbers for, and so does this Trainer: gradients of fp16 overflow.
TEST(Checkpoints, TheStateKeepsNanAndInfinities) {
  const auto state = TrainerState::from_json(
      R"({"global_step": 3, "best_metric": -Infinity, "best_model_checkpoint": "a NaN \\\" Infinity",
          "log_history": [{"grad_norm": NaN, "loss": Infinity, "step": 3}]})",
      "trainer_state.json");
  for (const TrainerState& one : {state, TrainerState::from_json(state.to_json(), "again")}) {
    ASSERT_EQ(one.log_history.size(), 1U);
    EXPECT_TRUE(std::isnan(one.log_history[0]["grad_norm"]));
    EXPECT_EQ(one.log_history[0]["loss"], HUGE_VAL);
    EXPECT_EQ(one.best_metric, -HUGE_VAL);
    EXPECT_EQ(one.best_model_checkpoint, "a NaN \\\" Infinity");
  }
}

}  // namespace
}  // namespace accelerate::detail
