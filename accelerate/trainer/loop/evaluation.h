// Evaluation and prediction: a pass over a dataset without gradients.
#pragma once

#include <cstdint>
#include <string>

#include "accelerate/trainer/data/trainer_dataset.h"
#include "accelerate/trainer/trainer_core.h"
#include "accelerate/trainer/trainer_options.h"
#include "accelerate/trainer/trainer_state.h"

namespace accelerate::detail {

struct EvaluationOptions {
  std::string prefix = "eval";  ///< Begins the names of metrics.
  bool keeps_predictions = false;
  std::string description = "evaluation";
};

struct EvaluationResult {
  EvalPrediction prediction = {};  ///< Empty unless somebody needs it.
  LogValues metrics = {};
  std::int64_t num_samples = 0;
};

/// Runs the model over `dataset` and returns the metrics and the loss, a mean over samples. Samples
/// that are repeated to make the ranks' batches equal count once. [collective] Source:
/// `evaluation_loop` of Transformers' Trainer.
[[nodiscard]] EvaluationResult run_evaluation(TrainerCore& core, const TrainerDataset& dataset,
                                              const EvaluationOptions& options);

/// The number of this rank's `rows` rows of the present batch that are not repeats.
[[nodiscard]] std::int64_t counted_rows(const Accelerator& accelerator, std::int64_t rows);

}  // namespace accelerate::detail
