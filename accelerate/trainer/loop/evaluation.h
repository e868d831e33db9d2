// Evaluation and prediction: a pass over a dataset without gradients.
#pragma once

#include <cstdint>
#include <string>

#include "accelerate/trainer/trainer.h"
#include "accelerate/trainer/trainer_core.h"

namespace accelerate::detail {

struct EvaluationOptions {
  std::string prefix = "eval";  ///< Of the names of metrics.
  bool keeps_predictions = false;
  std::string description = "evaluation";
};

struct EvaluationResult {
  EvalPrediction prediction = {};  ///< Kept only where somebody asked for it.
  LogValues metrics = {};
  std::int64_t num_samples = 0;
};

/// Runs the model over `dataset`: the loss as a mean over samples, and the metrics. Of repeated
/// samples that make the ranks' batches equal each counts once. [collective]
/// Source: `evaluation_loop` of Transformers' Trainer.
[[nodiscard]] EvaluationResult run_evaluation(TrainerCore& core, const TrainerDataset& dataset,
                                              const EvaluationOptions& options);

/// The samples of this rank's present batch, of `rows`, that are not repeats.
[[nodiscard]] std::int64_t counted_rows(const Accelerator& accelerator, std::int64_t rows);

}  // namespace accelerate::detail
