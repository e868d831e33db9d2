// Collects the predictions of all ranks and batches, for code that needs all of them together.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/transformers/trainer/trainer_options.h"

namespace accelerate::detail {

/// What one batch gave on one rank, or on all ranks.
struct GatheredBatch {
  std::vector<at::Tensor> outputs, labels;
  at::Tensor inputs = {}, losses = {};
};

/// Joins the rows of all ranks, in rank order, filled up with -100 along dim 1. `is_full`: all
/// ranks have equally many rows, so that tensors stay on their device. [collective]
[[nodiscard]] GatheredBatch gather_batch(const Accelerator& accelerator, GatheredBatch mine,
                                         bool is_full);

/// Returns `batch` without any of its rows.
[[nodiscard]] GatheredBatch without_rows(GatheredBatch batch);

[[nodiscard]] EvalPrediction prediction_of(const GatheredBatch& batch);

/// Keeps batches: on their device until eval_accumulation_steps of them have come, then on the CPU.
class CollectedPredictions {
 public:
  explicit CollectedPredictions(const ResolvedArguments& args);

  [[nodiscard]] bool wants_inputs() const { return wants_inputs_; }
  [[nodiscard]] bool wants_losses() const { return wants_losses_; }
  void add(GatheredBatch batch);
  /// Returns all predictions, on the CPU. Batches are joined, and padded with -100 along dim 1 to
  /// the longest; with eval_do_concat_batches = false they stay apart. Memory: twice the
  /// predictions for a moment.
  [[nodiscard]] EvalPrediction take();

 private:
  void move_to_cpu();

  bool wants_inputs_, wants_losses_, concatenates_;
  std::size_t moves_every_;
  std::size_t on_cpu_ = 0;
  std::vector<GatheredBatch> batches_;
};

}  // namespace accelerate::detail
