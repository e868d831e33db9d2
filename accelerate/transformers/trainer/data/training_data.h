// What a training reads, and how many steps it makes of that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "accelerate/transformers/trainer/data/epoch_batches.h"
#include "accelerate/transformers/trainer/data/trainer_loaders.h"
#include "accelerate/transformers/trainer/data/training_plan.h"

namespace accelerate::detail {

/// Returns how many of a rank's batches are trained: as many as every rank has. [collective]
using BatchesOfRank = std::function<std::int64_t(std::int64_t batches)>;

struct TrainingData {
  PreparedLoader<Inputs> loader;
  std::shared_ptr<EpochBatches> batches;  ///< Of `loader`; null where its batches have one size.
  TrainingPlan plan;
  BatchesOfRank trained;
};

/// Makes the loader and the plan. `accelerator` must outlive the result. [collective] Throws
/// ConfigError as plan_training and LoaderRecipe.
[[nodiscard]] TrainingData prepare_training(Accelerator& accelerator, const LoaderRecipe& recipe,
                                            const TrainerDataset& dataset);

}  // namespace accelerate::detail
