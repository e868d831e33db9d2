// Plans how many steps a training has.
#pragma once

#include <cstdint>
#include <optional>

#include "accelerate/trainer/arguments/training_arguments.h"

namespace accelerate::detail {

/// The steps, passes and samples of a training. Source: `set_initial_training_values` of
/// Transformers' Trainer.
struct TrainingPlan {
  std::int64_t max_steps = 0;          ///< Optimizer steps of the whole training.
  std::int64_t num_train_epochs = 0;   ///< Passes that are begun.
  std::int64_t updates_per_epoch = 0;  ///< Optimizer steps in a pass.
  std::int64_t batches_per_epoch = 0;  ///< Micro-batches of one rank in a pass.
  std::int64_t accumulation = 1;       ///< Micro-batches in a step.
  std::int64_t total_batch_size = 0;   ///< Samples in a step, on all ranks.
  std::int64_t num_examples = 0;       ///< Samples in a pass, on all ranks.
  double num_train_samples = 0;        ///< Samples in the whole training.

  /// The number of micro-batches in step `update` of an epoch; the last step may have fewer.
  [[nodiscard]] std::int64_t batches_of(std::int64_t update) const;
};

struct PlanSizes {
  std::optional<std::int64_t> batches = {};  ///< Of one rank in a pass; unknown for some streams.
  std::int64_t examples = 0;                 ///< Samples of the dataset.
  std::int64_t total_batch_size = 0;
};

/// Plans a training. Throws ConfigError when neither a number of steps nor the length of the data
/// says when to end, and for data without a batch.
[[nodiscard]] TrainingPlan plan_training(const TrainingArguments& args, std::int64_t accumulation,
                                         const PlanSizes& sizes);

}  // namespace accelerate::detail
