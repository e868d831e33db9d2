// The loss that a training goes down on.
#include <gtest/gtest.h>

#include "tests/support/support.h"
#include "tests/transformers/trainer/small_training.h"

namespace accelerate {
namespace {

using Ints = std::vector<std::int64_t>;

// Rows with three labels each, as integers or as the same numbers.
Dataset rows_of_three(bool are_integers) {
  std::vector<Row> rows;
  for (Row row : testing::small_rows(10)) {
    const std::int64_t first = row["input_ids"].integers().front() % 2;
    const Ints labels{first, 1 - first, 1};
    Row made{{"input_ids", row["input_ids"]}, {"attention_mask", row["attention_mask"]}};
    if (are_integers) {
      made.set("labels", labels);
    } else {
      made.set("labels", std::vector<double>(labels.begin(), labels.end()));
    }
    rows.push_back(std::move(made));
  }
  return Dataset::from_rows(rows);
}

std::vector<at::Tensor> trained_on_three(const std::string& problem, bool are_integers) {
  const testing::TemporaryFolder folder;
  auto args = testing::quiet_arguments(folder.path());
  args.per_device_train_batch_size = 2;
  args.gradient_accumulation_steps = 2;
  args.max_grad_norm = 0;
  args.optim = "sgd";
  auto options = testing::small_training(args);
  at::manual_seed(5);
  PretrainedConfig config = testing::small_bert_config();
  config.set_num_labels(3);
  config.set("problem_type", problem);
  options.model = AutoModelForSequenceClassification::from_config(config);
  options.train_dataset = rows_of_three(are_integers);
  Trainer trainer(std::move(options));
  trainer.train();
  return testing::weights_of(trainer.model());
}

// A mean over rows is divided by the micro-batches of a step, whatever the type of its labels.
TEST(Loss, OfSeveralIntegersIsTheLossOfTheSameNumbers) {
  for (const std::string problem : {"regression", "multi_label_classification"})
    EXPECT_TRUE(
        testing::are_equal(trained_on_three(problem, true), trained_on_three(problem, false)))
        << problem;
}

}  // namespace
}  // namespace accelerate
