#include "accelerate/transformers/trainer/training_record.h"
#include "accelerate/transformers/trainer/ranks.h"

#include <algorithm>
#include <utility>

namespace accelerate::detail {

TrainingRecord::TrainingRecord(const ResolvedArguments& args, Accelerator& accelerator,
                               TrainedModel& trained)
    : args_(args), accelerator_(accelerator), trained_(trained) {
  state.is_local_process_zero = accelerator.is_local_main_process();
  state.is_world_process_zero = accelerator.is_main_process();
}

TrainerEvent TrainingRecord::event() {
  return {.args = args_,
          .state = state,
          .control = control,
          .accelerator = accelerator_,
          .model = trained_.model(),
          .optimizer = trained_.optimizer(),
          .lr_scheduler = trained_.lr_scheduler()};
}

LogValues TrainingRecord::log(LogValues logs) {
  logs.set("epoch", state.epoch);
  if (args_.include_num_input_tokens_seen != CountedTokens::no)
    logs.set("num_input_tokens_seen", static_cast<double>(state.num_input_tokens_seen));
  LogValues kept = logs;
  kept.set("step", static_cast<double>(state.global_step));
  state.log_history.push_back(kept.sorted());
  call(&TrainerCallback::on_log, logs);
  return logs;
}

void TrainingRecord::warn(const std::string& text) {
  trainer_logger().warning(text, {.main_process_only = false});
  run_log->note(event(), text, "warning");
}

TrainerState TrainingRecord::saved_state() const {
  TrainerState saved = state;
  saved.control = control;
  callbacks.save_into(saved);
  return saved;
}

}  // namespace accelerate::detail
