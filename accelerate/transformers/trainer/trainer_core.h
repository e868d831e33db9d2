// The parts that make up a Trainer. Each part has one owner here; code that needs one part takes
// that part.
#pragma once

#include <filesystem>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/transformers/trainer/arguments/accelerator_options.h"
#include "accelerate/transformers/trainer/data/trainer_loaders.h"
#include "accelerate/transformers/trainer/trained_model.h"
#include "accelerate/transformers/trainer/trainer_options.h"
#include "accelerate/transformers/trainer/training_record.h"

namespace accelerate::detail {

struct TrainerCore {
  /// Joins the group of ranks, sets the seed and makes the parts. [collective] Throws ConfigError.
  explicit TrainerCore(TrainerOptions given);
  TrainerCore(const TrainerCore&) = delete;  // Parts refer to one another.
  TrainerCore& operator=(const TrainerCore&) = delete;

  const TrainerOptions options;  ///< As they were given.
  Accelerator accelerator;
  const ResolvedArguments args;  ///< With what the launcher decides.
  TrainedModel trained;          ///< What trains: the model, the optimizer, the schedule.
  LoaderRecipe recipe;           ///< What is planned: how rows become batches and steps.
  TrainingRecord record;         ///< What is recorded: state, logs, callbacks.

 private:
  struct Asked {
    ResolvedArguments args;
    AcceleratorOptions accelerator;
  };
  static Asked asked_of(const TrainingArguments& given);
  TrainerCore(TrainerOptions given, const Asked& asked);
};

/// Writes into `folder` what from_pretrained() needs beside the weights, and training_args.json.
/// Local, on one rank.
void write_model_files(const TrainerCore& core, const std::filesystem::path& folder);

}  // namespace accelerate::detail
