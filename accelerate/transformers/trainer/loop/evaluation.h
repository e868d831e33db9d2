// Evaluation and prediction: a pass over a dataset without gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "accelerate/transformers/trainer/data/trainer_dataset.h"
#include "accelerate/transformers/trainer/trainer_core.h"
#include "accelerate/transformers/trainer/trainer_options.h"
#include "accelerate/transformers/trainer/trainer_state.h"

namespace accelerate::detail {

struct EvaluationOptions {
  std::string prefix = "eval";  ///< Begins the names of metrics.
  bool keeps_predictions = false;
  std::string description = "evaluation";
  bool stops_on_signal = false;  ///< Whether a signal breaks it off; see StopSignals.
};

struct EvaluationResult {
  EvalPrediction prediction = {};  ///< Empty unless somebody needs it.
  LogValues metrics = {};
  std::int64_t num_samples = 0;  ///< On all ranks, each sample once.
  std::int64_t num_steps = 0;
  bool has_labels = false;     ///< Otherwise there is neither a loss nor a metric.
  bool is_broken_off = false;  ///< Then there is nothing else.
};

/// How far an evaluation of several sets has come that a signal may break off.
struct EvaluationProgress {
  std::int64_t sets = 0;       ///< How many are evaluated and logged.
  LogValues metrics = {};      ///< What they gave.
  bool is_broken_off = false;  ///< Whether a rank got a signal during the next one.
};

/// Runs the model over `dataset` and returns the metrics and the loss: the mean over all that was
/// judged, whatever the batch size and the number of ranks. Each sample is judged once.
/// [collective] Source: `evaluation_loop` of Transformers' Trainer, whose loss is another mean:
/// docs/trainer.md#evaluation.
[[nodiscard]] EvaluationResult run_evaluation(TrainerCore& core, const TrainerDataset& dataset,
                                              const EvaluationOptions& options);

/// Evaluates `sets`, by default the Trainer's, one after another; logs what each gave, and tells the
/// callbacks. Names of values begin with `prefix` and the set's name. Outside of a training the
/// weights are in 16 bits if the arguments ask for that. With `progress`, begins behind the sets that
/// it counts, and all ranks end at the same batch if one of them gets a signal. Then the generators of
/// random numbers are as before the set. [collective] Throws ConfigError without a set.
LogValues evaluate(TrainerCore& core, const EvalDatasets& sets, const std::string& prefix,
                   EvaluationProgress* progress = nullptr);

/// What messages call the set `name` of the Trainer's eval_dataset.
[[nodiscard]] std::string name_of_eval_set(const std::string& name);

/// Returns a sentence that says that `dataset`, called `where`, has no labels, and the cure.
[[nodiscard]] std::string lack_of_labels(const TrainerCore& core, const TrainerDataset& dataset,
                                         const std::string& where);

/// Returns weights in 16 bits while the result lives, if the arguments ask for that; null during a
/// training, where weights stay as they are. [collective] Throws ConfigError for a sharded model.
[[nodiscard]] std::unique_ptr<HalfWeights> half_weights(TrainerCore& core);

/// What the first batch of an evaluation set showed.
struct EvaluationTrial {
  bool has_labels = false;
  /// What a function of all predictions gave for the batch, with the names of an evaluation;
  /// nullopt if it was not called, or could not judge a single batch.
  std::optional<LogValues> metrics = {};
};

/// Judges the first batch of `dataset` as run_evaluation() does, and tells no callback.
/// `calls_function`: whether a function of all predictions is called too. [collective] Throws what
/// the collator, the model or the metric throw. Random generators are left as they were.
[[nodiscard]] EvaluationTrial try_evaluation(TrainerCore& core, const TrainerDataset& dataset,
                                             bool calls_function);

}  // namespace accelerate::detail
