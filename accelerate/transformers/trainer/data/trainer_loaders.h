// Makes a Trainer's loaders from its datasets: columns, collator, order.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"
#include "accelerate/transformers/trainer/arguments/training_arguments.h"
#include "accelerate/transformers/trainer/data/epoch_batches.h"
#include "accelerate/transformers/trainer/data/trainer_dataset.h"
#include "accelerate/transformers/trainer/trainable_model.h"

namespace accelerate::detail {

/// What decides how rows become batches.
struct LoaderRecipe {
  const ResolvedArguments& args;
  const TrainableModel& model;
  std::optional<PreTrainedTokenizer> processing_class = {};
  DataCollator data_collator = {};  ///< Empty: padding with a tokenizer, else stacking.
  std::int64_t train_batch_size = 0;
  int world_size = 1;
  std::int64_t accumulation = 1;  ///< Batches of a rank that make one step.

  /// Returns how an epoch is cut into batches.
  [[nodiscard]] EpochCut cut() const;
  /// Returns what makes the batches of epochs from the lengths of the rows; null where batches have
  /// one size, or a dataset makes them. Throws ConfigError for a dataset without rows.
  [[nodiscard]] std::shared_ptr<EpochBatches> epoch_batches(const TrainerDataset& dataset) const;
  /// `batches`: as epoch_batches() returns them.
  [[nodiscard]] DataLoader<Inputs> train_loader(const TrainerDataset& dataset,
                                                const std::shared_ptr<EpochBatches>& batches) const;
  [[nodiscard]] DataLoader<Inputs> eval_loader(const TrainerDataset& dataset) const;
  [[nodiscard]] DataCollator collator() const;
  /// Returns this rank's share of `loader`. Batches that rank 0 reads for all ranks are padded to
  /// one length.
  [[nodiscard]] PreparedLoader<Inputs> prepare(Accelerator& accelerator,
                                               const DataLoader<Inputs>& loader) const;

 private:
  [[nodiscard]] DataLoader<Inputs> make_loader(const TrainerDataset& dataset,
                                               DataLoaderOptions options) const;
};

/// Returns the columns that hold labels: args.label_names, else the model's label columns.
[[nodiscard]] std::vector<std::string> label_names(const LoaderRecipe& recipe);
/// Returns the columns that the model can use. Empty: they are not known, or all columns are to
/// stay.
[[nodiscard]] std::vector<std::string> used_columns(const LoaderRecipe& recipe);
/// Returns `dataset` without the columns that the model does not take, if remove_unused_columns is
/// set. Throws ConfigError when no column is left.
[[nodiscard]] Dataset without_unused_columns(const Dataset& dataset, const LoaderRecipe& recipe);
/// Returns the length of each row, from the column `column`, or, where it is missing, from
/// input_ids. Throws ConfigError where there is neither.
[[nodiscard]] std::vector<std::int64_t> lengths_of(const Dataset& dataset,
                                                   const std::string& column = "input_ids");

}  // namespace accelerate::detail
