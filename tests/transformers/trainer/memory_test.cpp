// That evaluation takes no memory that grows with the set.
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <torch/nn/modules/linear.h>

#include "accelerate/transformers/trainer/metrics/metrics.h"
#include "tests/support/support.h"
#include "tests/transformers/trainer/small_training.h"

namespace accelerate {
namespace {

// A batch's logits are small beside the bound, so that the heap's layout does not decide. Those of
// the whole set take 1.1 GiB.
constexpr std::int64_t kClasses = 3'000;

double peak_mebibytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

Dataset numbered_rows(std::int64_t count) {
  std::vector<Row> rows;
  for (std::int64_t i = 0; i < count; ++i)
    rows.push_back(Row{{"number", i}, {"labels", i % (kClasses / 2)}});
  return Dataset::from_rows(rows);
}

// Guesses class number % kClasses, which is right for half of the numbers.
TrainableModel guesser() {
  return trainable(torch::nn::Linear(1, 1), [](torch::nn::Linear& net, const Inputs& batch) {
    const auto number = batch["number"];
    const auto logits = at::zeros({number.size(0), kClasses});
    logits.scatter_(1, (number % kClasses).unsqueeze(1), 1.0);
    return ModelOutput{.loss = net->weight.sum() * 0, .logits = logits};
  });
}

TEST(TrainerMemory, EvaluationDoesNotGrowWithTheSet) {
  const testing::TemporaryFolder folder;
  auto options = testing::small_training(testing::quiet_arguments(folder.path()));
  options.args.per_device_eval_batch_size = 64;
  options.model = guesser();
  options.data_collator = {};
  options.compute_metrics = combine({Accuracy(), F1({.average = "macro"})});
  Trainer trainer(std::move(options));
  const Dataset some = numbered_rows(2'000), many = numbered_rows(100'000);
  (void)trainer.evaluate(some);
  const double before = peak_mebibytes();
  const auto metrics = trainer.evaluate(many);
  EXPECT_LT(peak_mebibytes() - before, 32);
  EXPECT_GT(*metrics.find("eval_accuracy"), 0.5);
  EXPECT_LT(*metrics.find("eval_accuracy"), 0.6);
}

}  // namespace
}  // namespace accelerate
