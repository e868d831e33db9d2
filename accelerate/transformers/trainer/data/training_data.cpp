#include "accelerate/transformers/trainer/data/training_data.h"

#include <utility>

#include "accelerate/base/logger.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate::detail {
namespace {

// With even_batches off a rank may have a batch more than others.
BatchesOfRank batches_that_count(Accelerator& accelerator, const ResolvedArguments& args) {
  if (args.accelerator_config.even_batches) return [](std::int64_t mine) { return mine; };
  return [&accelerator](std::int64_t mine) {
    const std::int64_t least = least_of_ranks(accelerator, mine);
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
BatchesOfEpoch batches_of_epochs(const LoaderRecipe& recipe,
                                 const std::shared_ptr<EpochBatches>& batches) {
  const auto& config = recipe.args.accelerator_config;
  const bool fills = config.even_batches || config.dispatch_batches.value_or(false);
  const std::int64_t ranks = recipe.world_size;
  const std::int64_t more = fills ? ranks - 1 : 0;
  return [=](std::int64_t epoch) { return (batches->count(epoch) + more) / ranks; };
}

}  // namespace

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
