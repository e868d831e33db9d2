// Hands what a training logs to the trackers of report_to.
#pragma once

#include "accelerate/transformers/trainer/callbacks/trainer_callback.h"

namespace accelerate {

/// Names are as in the original: train/loss, eval/accuracy, test/loss. Source: `rewrite_logs` of
/// Transformers.
class TrackingCallback final : public TrainerCallback {
 public:
  [[nodiscard]] std::string name() const override { return "TrackingCallback"; }
  void on_log(TrainerEvent& event, const LogValues& logs) override;

 private:
  bool started_ = false;
};

}  // namespace accelerate
