// The steps of an evaluation: in each, every rank judges at most one batch, and no sample is judged
// twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "accelerate/transformers/trainer/data/trainer_loaders.h"

namespace accelerate::detail {

struct EvaluationStep {
  /// This rank's batch, without repeated samples. Without samples it is a stand-in: the model runs
  /// on it, because other ranks may wait in its forward, and nobody reads what it gives.
  Inputs batch;
  std::int64_t samples = 0;  ///< Rows of the dataset in `batch`.
  bool is_full = true;       ///< Whether all ranks have equally many samples.
  bool is_last = false;      ///< Whether this is the last step of all ranks.
};

/// Goes through an evaluation set once. All ranks make the same number of steps. A batch holds only
/// the rows that are its own, however a collator joins rows, so that means over batches and rows
/// do not depend on the number of ranks.
class EvaluationSteps {
 public:
  /// `recipe`: how rows become batches. `stops_on_signal`: whether the steps end when a rank got a
  /// signal (StopSignals). `accelerator` must outlive this.
  EvaluationSteps(Accelerator& accelerator, const LoaderRecipe& recipe,
                  const TrainerDataset& dataset, bool stops_on_signal = false);

  /// The number of steps; nullopt if it is not known.
  [[nodiscard]] const std::optional<std::size_t>& size() const { return size_; }
  /// Returns the next step; nullopt at the end. [collective] Cost on several ranks: one sum of five
  /// numbers.
  [[nodiscard]] std::optional<EvaluationStep> next();
  /// Whether the steps ended because a rank got a signal.
  [[nodiscard]] bool is_stopped() const { return is_stopped_; }

 private:
  [[nodiscard]] bool has_signal() const;
  [[nodiscard]] bool read();
  [[nodiscard]] std::int64_t samples_of(const Inputs& batch) const;
  void cut_repeats(EvaluationStep& step) const;
  [[nodiscard]] bool agree(EvaluationStep& step, bool has_batch);

  Accelerator& accelerator_;
  PreparedLoader<Inputs> loader_;
  std::optional<std::size_t> size_;
  std::optional<LoaderIterator<Inputs>> batches_;
  std::size_t position_ = 0;
  std::optional<Inputs> before_;  // The batch of an earlier step.
  bool stops_on_signal_;
  bool is_stopped_ = false;
  bool has_ended_ = false;
};

}  // namespace accelerate::detail
