#include "accelerate/trainer/loop/training_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

std::int64_t rounded_up(std::int64_t dividend, std::int64_t divisor) {
  return dividend / divisor + (dividend % divisor > 0 ? 1 : 0);
}

// For a stream of unknown length: passes are begun until the steps are done.
TrainingPlan plan_of_stream(const TrainingArguments& args, TrainingPlan plan) {
  if (args.max_steps <= 0)
    throw ConfigError(
        "the training dataset does not know its length, and max_steps is " +
        std::to_string(args.max_steps) +
        ": set max_steps to the number of optimizer steps, or train on a dataset with a size");
  plan.max_steps = plan.updates_per_epoch = args.max_steps;
  plan.batches_per_epoch = args.max_steps * plan.accumulation;
  plan.num_train_epochs = std::numeric_limits<std::int64_t>::max();
  plan.num_examples = plan.total_batch_size * args.max_steps;
  plan.num_train_samples = static_cast<double>(plan.num_examples);
  return plan;
}

}  // namespace

std::int64_t EpochSteps::batches_of(std::int64_t update) const {
  if (update + 1 < updates) return accumulation;
  const std::int64_t rest = batches % accumulation;
  return rest == 0 ? accumulation : rest;
}

TrainingPlan plan_training(const TrainingArguments& args, std::int64_t accumulation,
                           const PlanSizes& sizes) {
  TrainingPlan plan{
      .accumulation = accumulation, .total_batch_size = sizes.total_batch_size, .cut = sizes.cut};
  if (!sizes.batches) return plan_of_stream(args, plan);
  if (*sizes.batches == 0)
    throw ConfigError("the training dataset gives no batch: it has " +
                      std::to_string(sizes.examples) + " samples" +
                      (args.dataloader_drop_last ? ", and dataloader_drop_last is true" : ""));
  plan.batches_per_epoch = *sizes.batches;
  plan.updates_per_epoch = std::max<std::int64_t>(rounded_up(*sizes.batches, accumulation), 1);
  plan.num_examples = sizes.examples;
  if (args.max_steps > 0) {
    plan.max_steps = args.max_steps;
    plan.num_train_epochs = rounded_up(plan.max_steps, plan.updates_per_epoch);
    plan.num_train_samples = static_cast<double>(plan.max_steps * plan.total_batch_size);
  } else {
    plan.max_steps = static_cast<std::int64_t>(
        std::ceil(args.num_train_epochs * static_cast<double>(plan.updates_per_epoch)));
    plan.num_train_epochs = static_cast<std::int64_t>(std::ceil(args.num_train_epochs));
    plan.num_train_samples = static_cast<double>(sizes.examples) * args.num_train_epochs;
  }
  return plan;
}

}  // namespace accelerate::detail
