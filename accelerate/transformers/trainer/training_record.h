// What a Trainer records: the state of the training, its logs, and whom it tells.
#pragma once

#include <memory>
#include <string>

#include "accelerate/transformers/trainer/callbacks/callback_list.h"
#include "accelerate/transformers/trainer/callbacks/run_log_callback.h"
#include "accelerate/transformers/trainer/trained_model.h"

namespace accelerate::detail {

class TrainingRecord {
 public:
  /// All references must outlive this.
  TrainingRecord(const ResolvedArguments& args, Accelerator& accelerator, TrainedModel& trained);

  [[nodiscard]] TrainerEvent event();
  /// Calls `handler` of every callback with the present event.
  template <typename... Parameters, typename... Arguments>
  void call(void (TrainerCallback::*handler)(TrainerEvent&, Parameters...),
            const Arguments&... arguments) {
    auto happened = event();
    callbacks.call(handler, happened, arguments...);
  }
  /// Adds the epoch and the token count to `logs`, keeps them in the history and tells the
  /// callbacks. Returns what was logged.
  LogValues log(LogValues logs);
  /// Warns on this rank, and notes the warning in the run log.
  void warn(const std::string& text);
  /// Returns the state, with the states of callbacks, as it is written to files.
  [[nodiscard]] TrainerState saved_state() const;

  TrainerState state;
  TrainerControl control;
  CallbackList callbacks;
  std::shared_ptr<RunLogCallback> run_log = std::make_shared<RunLogCallback>();
  bool is_training = false;  ///< From on_train_begin to on_train_end.

 private:
  const ResolvedArguments& args_;
  Accelerator& accelerator_;
  TrainedModel& trained_;
};

}  // namespace accelerate::detail
