// Going on in the middle of an epoch with another number of ranks.
#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>

#include "tests/support/ranks.h"
#include "tests/support/support.h"
#include "tests/transformers/trainer/small_training.h"

namespace accelerate::resuming_on_other_ranks {
namespace {

using testing::TemporaryFolder;

constexpr std::int64_t kRows = 24, kBatch = 4, kEpochs = 2;

// Rows whose label is their number, so that the loss can tell which ones are trained.
Dataset numbered_rows() {
  std::vector<Row> rows;
  for (Row row : testing::small_rows(kRows)) {
    row.set("label", static_cast<std::int64_t>(rows.size()));
    rows.push_back(std::move(row));
  }
  return Dataset::from_rows(rows);
}

struct StopsBehind final : TrainerCallback {
  explicit StopsBehind(std::int64_t step) : step(step) {}
  void on_save(TrainerEvent& event, const std::filesystem::path&) override {
    if (event.state.global_step == step) event.control.should_training_stop = true;
  }
  std::int64_t step;
};

std::int64_t number_of(const char* variable) {
  return std::strtoll(std::getenv(variable), nullptr, 10);
}

// Prints a line for each row that this rank trains on, and the steps at the end.
RANK_MAIN(trains_numbered_rows) {
  at::set_num_threads(1);
  auto args = testing::quiet_arguments(std::getenv("RESUME_FOLDER"));
  args.train_sampling_strategy = std::string(std::getenv("RESUME_STRATEGY"));
  args.per_device_train_batch_size = kBatch;
  args.num_train_epochs = kEpochs;
  args.logging_strategy = "no";
  const std::int64_t stop = number_of("RESUME_STOP");
  args.save_strategy = stop > 0 ? "steps" : "no";
  args.save_steps = static_cast<double>(std::max<std::int64_t>(stop, 1));
  auto options = testing::small_training(std::move(args));
  options.train_dataset = numbered_rows();
  options.compute_loss_func = [](const ModelOutput& outputs, const at::Tensor& labels,
                                 const at::Tensor&) {
    for (std::int64_t i = 0; i < labels.size(0); ++i)
      std::printf("row %lld\n", static_cast<long long>(labels[i].item<std::int64_t>()));
    return outputs.logits.square().mean();
  };
  if (stop > 0) options.callbacks = {std::make_shared<StopsBehind>(stop)};
  Trainer trainer(std::move(options));
  const auto output = trainer.train(ResumeOption(stop == 0));
  std::printf("steps %lld of %lld\n", static_cast<long long>(output.global_step),
              static_cast<long long>(trainer.state().max_steps));
  return 0;
}

struct Ran {
  std::map<std::int64_t, int> rows;  // How often each was trained, by all ranks.
  std::string steps, said;
};

Ran run(const TemporaryFolder& folder, const char* strategy, int ranks, std::int64_t stop) {
  Ran ran;
  for (const auto& rank :
       testing::run_processes(ranks, "trains_numbered_rows",
                              {.env = {{"RESUME_FOLDER", folder.path()},
                                       {"RESUME_STRATEGY", strategy},
                                       {"RESUME_STOP", std::to_string(stop)}}})) {
    EXPECT_EQ(rank.exit_code, 0) << rank.out << rank.err;
    ran.said += rank.err;
    std::istringstream lines(rank.out);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("row ")) ++ran.rows[std::stoll(line.substr(4))];
      if (line.starts_with("steps ")) ran.steps = line;
    }
  }
  return ran;
}

struct Change {
  int before, then;          // Ranks.
  std::int64_t stop;         // The step to stop behind, in the first epoch or the second.
  const char *steps, *left;  // What is reported.
};

// In each epoch every row is trained once, by whichever run.
TEST(ResumeOnOtherRanks, TrainsEachRowOfAnEpochOnce) {
  for (const auto& [before, then, stop, steps, left] : {
           Change{2, 1, 1, "steps 11 of 11", "epoch 0, of which 4 steps are left"},
           Change{2, 1, 4, "steps 8 of 8", "epoch 1, of which 4 steps are left"},
           Change{1, 2, 2, "steps 7 of 7", "epoch 0, of which 2 steps are left"},
       }) {
    for (const char* strategy : {"random", "group_by_length"}) {
      SCOPED_TRACE(std::to_string(before) + " ranks, then " + std::to_string(then) +
                   ", behind step " + std::to_string(stop) + ", " + strategy);
      const TemporaryFolder folder;
      const Ran first = run(folder, strategy, before, stop);
      Ran second = run(folder, strategy, then, 0);
      EXPECT_EQ(second.steps, steps);
      for (const auto& [row, count] : first.rows) second.rows[row] += count;
      EXPECT_EQ(second.rows.size(), kRows);
      for (const auto& [row, count] : second.rows) EXPECT_EQ(count, kEpochs) << "row " << row;
      const auto change = "made steps of " + std::to_string(before * kBatch) + " samples";
      EXPECT_NE(second.said.find(change), std::string::npos) << second.said;
      EXPECT_NE(second.said.find("makes steps of " + std::to_string(then * kBatch)),
                std::string::npos);
      EXPECT_NE(second.said.find(left), std::string::npos) << second.said;
    }
  }
}

}  // namespace
}  // namespace accelerate::resuming_on_other_ranks
