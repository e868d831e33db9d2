// Asks for logs, evaluations and checkpoints when the arguments say so.
#pragma once

#include "accelerate/transformers/trainer/callbacks/trainer_callback.h"

namespace accelerate {

/// The first callback of every Trainer. Source: `DefaultFlowCallback` of Transformers.
class DefaultFlowCallback final : public TrainerCallback {
 public:
  [[nodiscard]] std::string name() const override { return "DefaultFlowCallback"; }
  void on_step_end(TrainerEvent& event) override;
  void on_epoch_end(TrainerEvent& event) override;
};

}  // namespace accelerate
