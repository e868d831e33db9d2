// Ends a training that no longer gets better.
#pragma once

#include <cstdint>

#include "accelerate/transformers/trainer/callbacks/trainer_callback.h"

namespace accelerate {

struct EarlyStoppingOptions {
  std::int64_t early_stopping_patience = 1;  ///< Evaluations in a row without a better metric.
  double early_stopping_threshold = 0.0;     ///< How much better counts as better.
};

/// Stops a training when early_stopping_patience evaluations in a row did not improve the best
/// metric_for_best_model. Throws ConfigError at the beginning of a training without that metric or
/// without evaluations. A resumed training goes on counting, and does not begin where the patience
/// of early_stopping_patience was at its end. Source: `EarlyStoppingCallback` of Transformers.
class EarlyStoppingCallback final : public TrainerCallback {
 public:
  explicit EarlyStoppingCallback(EarlyStoppingOptions options = {}) : options_(options) {}

  [[nodiscard]] std::string name() const override { return "EarlyStoppingCallback"; }
  void on_train_begin(TrainerEvent& event) override;
  void on_evaluate(TrainerEvent& event, const LogValues& metrics) override;
  [[nodiscard]] Node state() const override;
  void load_state(const Node& state) override;

 private:
  EarlyStoppingOptions options_;
  std::int64_t patience_counter_ = 0;
  bool goes_on_ = false;  // Whether the counter is of a checkpoint from which a training goes on.
};

}  // namespace accelerate
