#include "accelerate/transformers/trainer/data/training_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate::detail {
namespace {

// For a stream of unknown length: passes are begun until the steps are done.
TrainingPlan plan_of_stream(const ResolvedArguments& args, TrainingPlan plan) {
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

// With even_batches off a rank may have a batch more than others.
BatchesOfRank batches_that_count(Accelerator& accelerator, const ResolvedArguments& args) {
  if (args.accelerator_config.even_batches) return [](std::int64_t mine) { return mine; };
  return [&accelerator](std::int64_t mine) {
    const std::int64_t least = least_of_ranks(accelerator, mine);
    if (mine > least)
      trainer_logger().warning_once(
          "accelerator_config.even_batches is false: an epoch ends where a rank has no batch "
          "left. The last rows of its order, less than a step of all ranks, are not trained. "
          "They are with even_batches = true");
    return least;
  };
}

// The last step of an epoch is filled up, or, with even_batches off, left out.
BatchesOfEpoch batches_of_epochs(const LoaderRecipe& recipe,
                                 const std::shared_ptr<EpochBatches>& batches) {
  const auto& config = recipe.args.accelerator_config;
  const bool fills = config.even_batches || config.dispatch_batches.value_or(false);
  const std::int64_t ranks = recipe.world_size;
  const std::int64_t more = fills ? ranks - 1 : 0;
  return [=](std::int64_t epoch) { return (batches->count(epoch) + more) / ranks; };
}

}  // namespace

std::int64_t EpochSteps::batches_of(std::int64_t update) const {
  if (update + 1 < updates) return accumulation;
  const std::int64_t rest = batches % accumulation;
  return rest == 0 ? accumulation : rest;
}

EpochSteps TrainingPlan::epoch(std::int64_t number) const {
  EpochSteps steps{.updates = updates_per_epoch,
                   .batches = batches_per_epoch,
                   .accumulation = accumulation,
                   .cut = cut};
  if (!batches_of) return steps;
  steps.batches = batches_of(number);
  steps.updates = steps_of(steps.batches, accumulation);
  return steps;
}

std::int64_t TrainingPlan::steps_before(std::int64_t number) const {
  if (!batches_of) return number * updates_per_epoch;
  std::int64_t steps = 0;
  for (std::int64_t i = 0; i < number; ++i) steps += epoch(i).updates;
  return steps;
}

std::int64_t TrainingPlan::epochs_of(std::int64_t steps, std::int64_t first) const {
  if (!batches_of) return steps_of(steps, updates_per_epoch);
  std::int64_t number = first;
  for (; steps > 0; ++number) steps -= epoch(number).updates;
  return number - first;
}

void plan_epochs(const ResolvedArguments& args, TrainingPlan& plan) {
  if (args.max_steps > 0) {
    plan.max_steps = args.max_steps;
    plan.num_train_epochs = plan.epochs_of(plan.max_steps, 0);
    return;
  }
  plan.num_train_epochs = static_cast<std::int64_t>(std::ceil(args.num_train_epochs));
  // Whole epochs, and a part of the last one.
  const std::int64_t whole =
      plan.batches_of ? std::max<std::int64_t>(plan.num_train_epochs - 1, 0) : 0;
  const double part = args.num_train_epochs - static_cast<double>(whole);
  plan.max_steps =
      plan.steps_before(whole) +
      static_cast<std::int64_t>(std::ceil(part * static_cast<double>(plan.epoch(whole).updates)));
}

TrainingPlan plan_training(const ResolvedArguments& args, std::int64_t accumulation,
                           const PlanSizes& sizes) {
  TrainingPlan plan{.accumulation = accumulation,
                    .total_batch_size = sizes.total_batch_size,
                    .cut = sizes.cut,
                    .batches_of = sizes.batches_of};
  if (!sizes.batches) return plan_of_stream(args, plan);
  if (*sizes.batches == 0)
    throw ConfigError("the training dataset gives no batch: it has " +
                      std::to_string(sizes.examples) + " samples" +
                      (args.dataloader_drop_last ? ", and dataloader_drop_last is true" : "") +
                      (args.accelerator_config.even_batches
                           ? ""
                           : ", and accelerator_config.even_batches is false, so that each rank "
                             "needs a batch of its own"));
  plan.batches_per_epoch = *sizes.batches;
  plan.updates_per_epoch = steps_of(*sizes.batches, accumulation);
  plan.num_examples = sizes.examples;
  plan_epochs(args, plan);
  plan.num_train_samples = args.max_steps > 0
                               ? static_cast<double>(plan.max_steps * plan.total_batch_size)
                               : static_cast<double>(sizes.examples) * args.num_train_epochs;
  return plan;
}

TrainingData prepare_training(Accelerator& accelerator, const LoaderRecipe& recipe,
                              const TrainerDataset& dataset) {
  auto batches = recipe.epoch_batches(dataset);
  auto loader = recipe.prepare(accelerator, recipe.train_loader(dataset, batches));
  auto trained = batches_that_count(accelerator, recipe.args);
  PlanSizes sizes;
  if (const auto examples = dataset.size()) {
    sizes.batches = trained(static_cast<std::int64_t>(loader.size()));
    sizes.examples = static_cast<std::int64_t>(*examples);
    if (recipe.args.max_tokens_per_batch) sizes.batches_of = batches_of_epochs(recipe, batches);
  }
  const std::int64_t ranks = accelerator.split_batches() ? 1 : recipe.world_size;
  sizes.total_batch_size = recipe.train_batch_size * recipe.accumulation * ranks;
  sizes.cut = recipe.cut();
  auto plan = plan_training(recipe.args, recipe.accumulation, sizes);
  return {std::move(loader), std::move(batches), std::move(plan), std::move(trained)};
}

}  // namespace accelerate::detail
