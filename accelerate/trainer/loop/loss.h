// The loss of a batch, by whom the Trainer was told: the model, a function, or smoothed labels.
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

/// Source: `compute_loss` of Transformers' Trainer.
class BatchLoss {
 public:
  BatchLoss(const TrainerOptions& options, const TrainingArguments& args,
            const TrainableModel& model, int num_processes);

  /// Whether losses are divided by the labels of a whole step, so that these must be counted.
  [[nodiscard]] bool counts_items(const Inputs& batch) const;
  /// The labels of `batch` that take part.
  [[nodiscard]] std::int64_t items(const Inputs& batch) const;

  /// `num_items`: {}, undefined if not counted. Throws UsageError when the model returns no loss.
  [[nodiscard]] LossOutput operator()(PreparedModel& model, Inputs batch,
                                      const at::Tensor& num_items) const;

 private:
  [[nodiscard]] at::Tensor loss_of(const ModelOutput& outputs, const at::Tensor& labels,
                                   const at::Tensor& num_items, const Inputs& batch) const;

  ComputeLoss compute_loss_func_;
  double label_smoothing_;
  bool averages_over_ranks_;
  bool takes_num_items_;  // The model's own loss is divided by them.
  bool shifts_labels_;
  int num_processes_;
  std::string model_name_;
};

}  // namespace accelerate::detail
