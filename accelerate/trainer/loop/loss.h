// The loss of a batch: the model's own, the loss of a given function, or the loss of smoothed
// labels.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "accelerate/models/model_output.h"
#include "accelerate/tensor/inputs.h"
#include "accelerate/trainer/trainer_options.h"

namespace accelerate::detail {
class PreparedModel;

struct LossOutput {
  at::Tensor loss;  ///< {}
  ModelOutput outputs;
};

/// Computes the loss of a batch. Source: `compute_loss` of Transformers' Trainer.
class BatchLoss {
 public:
  BatchLoss(const TrainerOptions& options, const TrainingArguments& args,
            const TrainableModel& model, int num_processes);

  /// Whether losses are divided by the number of labels in a whole step, so that labels must be
  /// counted.
  [[nodiscard]] bool counts_items(const Inputs& batch) const;
  /// The number of labels of `batch` that take part.
  [[nodiscard]] std::int64_t items(const Inputs& batch) const;
  /// Returns how many things the loss of `batch`, which operator() computed with items(batch), is a
  /// mean over: labels, or `samples` where each row has one loss. Means of batches, weighted by
  /// this, are the mean of all batches together. docs/trainer.md#evaluation has a table.
  [[nodiscard]] double weight(const Inputs& batch, std::int64_t samples) const;

  /// Runs the model and returns the loss with the outputs. `num_items`: {}, undefined if labels are
  /// not counted. Throws UsageError when there is no loss.
  [[nodiscard]] LossOutput operator()(PreparedModel& model, Inputs batch,
                                      const at::Tensor& num_items) const;

 private:
  [[nodiscard]] at::Tensor loss_of(const ModelOutput& outputs, const at::Tensor& labels,
                                   const at::Tensor& num_items, const Inputs& batch) const;

  ComputeLoss compute_loss_func_;
  double label_smoothing_;
  bool averages_over_ranks_;
  bool takes_num_items_;  // The model divides its own loss by num_items.
  bool is_over_labels_;   // The loss is a mean over labels, where they are classes.
  bool answers_questions_;
  bool shifts_labels_;
  int num_processes_;
  std::string model_name_, how_to_name_labels_;
};

}  // namespace accelerate::detail
