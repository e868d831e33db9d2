// Plans what a training reads, and how many steps it makes of that.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "accelerate/transformers/trainer/arguments/training_arguments.h"
#include "accelerate/transformers/trainer/data/epoch_batches.h"
#include "accelerate/transformers/trainer/data/trainer_loaders.h"

namespace accelerate::detail {

/// The steps of one epoch, or of the rest of an epoch that goes on with other batches.
struct EpochSteps {
  std::int64_t updates = 0;       ///< Optimizer steps.
  std::int64_t batches = 0;       ///< Micro-batches of one rank.
  std::int64_t accumulation = 1;  ///< Micro-batches in a step.
  double begin = 0;               ///< The share of the epoch that is done before the first step.
  EpochCut cut = {};              ///< How its samples become batches.

  /// The number of micro-batches in step `update`; the last step may have fewer.
  [[nodiscard]] std::int64_t batches_of(std::int64_t update) const;
  /// The share of the epoch that is done after `done` micro-batches.
  [[nodiscard]] double share(std::int64_t done) const {
    return begin + (1 - begin) * static_cast<double>(done) / static_cast<double>(batches);
  }
};

/// Returns how many steps `batches` micro-batches make; the last one may have fewer.
[[nodiscard]] inline std::int64_t steps_of(std::int64_t batches, std::int64_t accumulation) {
  return batches / accumulation + (batches % accumulation > 0 ? 1 : 0);
}

/// Returns the micro-batches of one rank in an epoch. Empty: all epochs have equally many.
using BatchesOfEpoch = std::function<std::int64_t(std::int64_t epoch)>;

/// The steps, passes and samples of a training. Source: `set_initial_training_values` of
/// Transformers' Trainer.
struct TrainingPlan {
  std::int64_t max_steps = 0;         ///< Optimizer steps of the whole training.
  std::int64_t num_train_epochs = 0;  ///< Passes that are begun.
  std::int64_t updates_per_epoch =
      0;  ///< Optimizer steps in a pass, the first one where they vary.
  std::int64_t batches_per_epoch = 0;  ///< Micro-batches of one rank in such a pass.
  std::int64_t accumulation = 1;       ///< Micro-batches in a step.
  std::int64_t total_batch_size = 0;   ///< Samples in a step, on all ranks.
  std::int64_t num_examples = 0;       ///< Samples in a pass, on all ranks.
  double num_train_samples = 0;        ///< Samples in the whole training.
  /// Steps more, or less, than whole epochs of this plan have: some were made with other batches.
  std::int64_t extra_steps = 0;
  EpochCut cut = {};  ///< How the samples of an epoch become batches.
  BatchesOfEpoch batches_of = {};

  /// The steps of the whole epoch `number`.
  [[nodiscard]] EpochSteps epoch(std::int64_t number) const;
  /// The steps of the epochs before `number`.
  [[nodiscard]] std::int64_t steps_before(std::int64_t number) const;
  /// The number of epochs, from `first` on, that `steps` steps take.
  [[nodiscard]] std::int64_t epochs_of(std::int64_t steps, std::int64_t first) const;
  /// Whether a pass has an unknown number of batches.
  [[nodiscard]] bool is_stream() const {
    return num_train_epochs == std::numeric_limits<std::int64_t>::max();
  }
};

struct PlanSizes {
  std::optional<std::int64_t> batches = {};  ///< Of one rank in a pass; unknown for some streams.
  std::int64_t examples = 0;                 ///< Samples of the dataset.
  std::int64_t total_batch_size = 0;
  EpochCut cut = {};
  BatchesOfEpoch batches_of = {};
};

/// Plans a training. Throws ConfigError when neither a number of steps nor the length of the data
/// says when to end, and for data without a batch.
[[nodiscard]] TrainingPlan plan_training(const ResolvedArguments& args, std::int64_t accumulation,
                                         const PlanSizes& sizes);

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

/// Counts the steps and the epochs of a plan for data with a length. Costs what `batches_of` costs
/// for each epoch.
void plan_epochs(const ResolvedArguments& args, TrainingPlan& plan);

}  // namespace accelerate::detail
