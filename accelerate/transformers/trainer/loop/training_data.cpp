#include "accelerate/transformers/trainer/loop/training_data.h"

#include <utility>

#include "accelerate/base/logger.h"

namespace accelerate::detail {
namespace {

// With even_batches off a rank may have a batch more than others.
BatchesOfRank batches_that_count(TrainerCore& core) {
  if (core.args.accelerator_config.even_batches) return [](std::int64_t mine) { return mine; };
  return [&core](std::int64_t mine) {
    const std::int64_t least = core.least(mine);
    if (mine > least)
      get_logger("accelerate.trainer")
          .warning_once(
              "accelerator_config.even_batches is false: an epoch ends where a rank has no batch "
              "left. The last rows of its order, less than a step of all ranks, are not trained. "
              "They are with even_batches = true");
    return least;
  };
}

// The last step of an epoch is filled up, or, with even_batches off, left out.
BatchesOfEpoch batches_of_epochs(const TrainerCore& core,
                                 const std::shared_ptr<EpochBatches>& batches) {
  const auto& config = core.args.accelerator_config;
  const bool fills = config.even_batches || config.dispatch_batches.value_or(false);
  const std::int64_t ranks = core.accelerator.num_processes();
  const std::int64_t more = fills ? ranks - 1 : 0;
  return [=](std::int64_t epoch) { return (batches->count(epoch) + more) / ranks; };
}

}  // namespace

TrainingData prepare_training(TrainerCore& core) {
  const auto recipe = core.recipe();
  const auto& dataset = core.options.train_dataset;
  auto batches = recipe.epoch_batches(dataset);
  auto loader = core.prepare(recipe.train_loader(dataset, batches));
  auto trained = batches_that_count(core);
  PlanSizes sizes;
  if (const auto examples = dataset.size()) {
    sizes.batches = trained(static_cast<std::int64_t>(loader.size()));
    sizes.examples = static_cast<std::int64_t>(*examples);
    if (core.args.max_tokens_per_batch) sizes.batches_of = batches_of_epochs(core, batches);
  }
  const std::int64_t ranks =
      core.accelerator.split_batches() ? 1 : core.accelerator.num_processes();
  sizes.total_batch_size = core.train_batch_size * core.accumulation * ranks;
  sizes.cut = recipe.cut();
  auto plan = plan_training(core.args, core.accumulation, sizes);
  return {std::move(loader), std::move(batches), std::move(plan), std::move(trained)};
}

}  // namespace accelerate::detail
