// From a Trainer's datasets to its loaders: columns, collator, order.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/tokenizers/pretrained/pre_trained_tokenizer.h"
#include "accelerate/trainer/arguments/training_arguments.h"
#include "accelerate/trainer/data/trainer_dataset.h"
#include "accelerate/trainer/trainable_model.h"

namespace accelerate::detail {

/// What decides how rows become batches.
struct LoaderRecipe {
  const TrainingArguments& args;  ///< Resolved.
  const TrainableModel& model;
  std::optional<PreTrainedTokenizer> processing_class = {};
  DataCollator data_collator = {};  ///< Empty: padding with a tokenizer, else stacking.
  std::int64_t train_batch_size = 0;
  int world_size = 1;
  std::int64_t accumulation = 1;  ///< Batches of a rank that are one step.

  [[nodiscard]] DataLoader<Inputs> train_loader(const TrainerDataset& dataset) const;
  [[nodiscard]] DataLoader<Inputs> eval_loader(const TrainerDataset& dataset) const;
  [[nodiscard]] DataCollator collator() const;

 private:
  [[nodiscard]] std::function<BatchList(std::int64_t)> batch_lists(const Dataset& rows) const;
  [[nodiscard]] DataLoader<Inputs> make_loader(const TrainerDataset& dataset,
                                               DataLoaderOptions options) const;
};

/// Fills up batches that are to be divided to one length along dim 1: input_ids by `pad_token_id`,
/// labels by -100, everything else by 0.
void pad_alike(std::vector<Inputs>& batches, std::int64_t pad_token_id);

/// The columns that hold labels, as the arguments say, else as the model does.
[[nodiscard]] std::vector<std::string> label_names(const TrainingArguments& args,
                                                   const TrainableModel& model);
/// The columns that the model has use for; empty: nobody knows, and all stay.
[[nodiscard]] std::vector<std::string> used_columns(const TrainingArguments& args,
                                                    const TrainableModel& model);
/// `dataset` without columns that the model does not take, as remove_unused_columns says. Throws
/// ConfigError when none is left.
[[nodiscard]] Dataset without_unused_columns(const Dataset& dataset, const TrainingArguments& args,
                                             const TrainableModel& model);
/// The length of each row: the column length_column_name, else of the column `input`. Throws
/// ConfigError where there is neither.
[[nodiscard]] std::vector<std::int64_t> lengths_of(const Dataset& dataset,
                                                   const std::string& column,
                                                   const std::string& input);

}  // namespace accelerate::detail
