// How many steps a training has.
#pragma once

#include <cstdint>
#include <optional>

#include "accelerate/trainer/arguments/training_arguments.h"

namespace accelerate::detail {

/// Source: `set_initial_training_values` of Transformers' Trainer.
struct TrainingPlan {
  std::int64_t max_steps = 0;          ///< Optimizer steps of the whole training.
  std::int64_t num_train_epochs = 0;   ///< Passes begun.
  std::int64_t updates_per_epoch = 0;  ///< Optimizer steps of a pass.
  std::int64_t batches_per_epoch = 0;  ///< Micro-batches of a pass, of a rank.
  std::int64_t accumulation = 1;       ///< Micro-batches of a step.
  std::int64_t total_batch_size = 0;   ///< Samples of a step, of all ranks.
  std::int64_t num_examples = 0;       ///< Samples of a pass, of all ranks.
  double num_train_samples = 0;        ///< Samples of the whole training.

  /// Micro-batches of step `update` of an epoch; the last step may have fewer.
  [[nodiscard]] std::int64_t batches_of(std::int64_t update) const;
};

struct PlanSizes {
  std::optional<std::int64_t> batches = {};  ///< Of a pass, of a rank; unknown for some streams.
  std::int64_t examples = 0;                 ///< Of the dataset.
  std::int64_t total_batch_size = 0;
};

/// Throws ConfigError when neither a number of steps nor the length of the data says when to end,
/// and for data without a batch.
[[nodiscard]] TrainingPlan plan_training(const TrainingArguments& args, std::int64_t accumulation,
                                         const PlanSizes& sizes);

}  // namespace accelerate::detail
