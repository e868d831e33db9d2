// The callbacks of a Trainer, called one after the other.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "accelerate/transformers/trainer/callbacks/trainer_callback.h"

namespace accelerate {

// Asks for logs, evaluations and checkpoints when the arguments say so.

/// The first callback of every Trainer. Source: `DefaultFlowCallback` of Transformers.
class DefaultFlowCallback final : public TrainerCallback {
 public:
  [[nodiscard]] std::string name() const override { return "DefaultFlowCallback"; }
  void on_step_end(TrainerEvent& event) override;
  void on_epoch_end(TrainerEvent& event) override;
};

}  // namespace accelerate

namespace accelerate::detail {

class CallbackList {
 public:
  /// Throws UsageError for null.
  void add(std::shared_ptr<TrainerCallback> callback);
  /// Removes and returns the first callback with that name(); null if there is none.
  std::shared_ptr<TrainerCallback> pop(std::string_view name);

  /// Calls `handler` of each callback. A callback may add and remove callbacks.
  template <typename... Parameters, typename... Arguments>
  void call(void (TrainerCallback::*handler)(TrainerEvent&, Parameters...), TrainerEvent& event,
            const Arguments&... arguments) const {
    for (const auto& callback : std::vector(callbacks_))
      ((*callback).*handler)(event, arguments...);
  }

  /// Writes the states of the callbacks into state.stateful_callbacks.
  void save_into(TrainerState& state) const;
  /// Hands each callback the state that `state` has for it.
  void load_from(const TrainerState& state) const;

 private:
  std::vector<std::shared_ptr<TrainerCallback>> callbacks_;
};

}  // namespace accelerate::detail
