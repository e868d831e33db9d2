// The loss of a batch: the model's own, the loss of a given function, or the loss of smoothed
// labels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "accelerate/tensor/inputs.h"
#include "accelerate/transformers/models/model_output.h"
#include "accelerate/transformers/trainer/data/trainer_loaders.h"
#include "accelerate/transformers/trainer/trained_model.h"

namespace accelerate::detail {

struct LossOutput {
  at::Tensor loss;  ///< {}
  ModelOutput outputs;
};

/// A mean over `weight` things: labels, or rows where each row has one loss. NaN over none.
struct LossPart {
  double mean = 0, weight = 0;
};

/// Computes the loss of a batch. Source: `compute_loss` of Transformers' Trainer.
class BatchLoss {
 public:
  /// `num_processes`: the ranks that share a step.
  BatchLoss(const TrainerOptions& options, const LoaderRecipe& recipe, int num_processes);

  /// Whether losses are divided by the number of labels in a whole step, so that labels must be
  /// counted.
  [[nodiscard]] bool counts_items(const Inputs& batch) const;
  /// The number of labels of `batch` that take part.
  [[nodiscard]] std::int64_t items(const Inputs& batch) const;
  /// Returns the parts whose average is the loss that operator() computed of `batch` with
  /// items(batch). `samples`: its rows. The parts of several batches, each weighted on its own, are
  /// those of all batches together. One part, or two of answers in a text: beginnings and ends may
  /// differ in how many lie inside. docs/trainer.md#evaluation has a table.
  [[nodiscard]] std::vector<LossPart> parts(const LossOutput& computed, const Inputs& batch,
                                            std::int64_t samples) const;
  static constexpr std::size_t kMostParts = 2;

  /// Runs the model and returns the loss with the outputs. `num_items`: {}, undefined if labels are
  /// not counted. Throws UsageError when there is no loss.
  [[nodiscard]] LossOutput operator()(PreparedModel& model, Inputs batch,
                                      const at::Tensor& num_items) const;

 private:
  [[nodiscard]] bool is_over_labels(const at::Tensor& labels) const;
  [[nodiscard]] double weight(const Inputs& batch, std::int64_t samples) const;
  [[nodiscard]] at::Tensor loss_of(const ModelOutput& outputs, const at::Tensor& labels,
                                   const at::Tensor& num_items, const Inputs& batch) const;

  ComputeLoss compute_loss_func_;
  double label_smoothing_;
  bool averages_over_ranks_;
  bool takes_num_items_;  // The model divides its loss of classes by num_items.
  bool is_pretrained_;
  bool classifies_rows_;
  bool answers_questions_;
  bool shifts_labels_;
  std::string problem_;  // Of a model that classifies rows, as are its labels.
  std::int64_t num_labels_ = 0;
  int num_processes_;
  std::string model_name_, how_to_name_labels_;
};

}  // namespace accelerate::detail
