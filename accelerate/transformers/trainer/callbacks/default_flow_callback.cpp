#include "accelerate/transformers/trainer/callbacks/default_flow_callback.h"

#include "accelerate/transformers/trainer/arguments/training_arguments.h"

namespace accelerate {
namespace {

bool is_turn(std::int64_t step, std::int64_t every) {
  return every > 0 && step % every == 0;
}

// The last step also evaluates and saves, if the strategies count steps.
void ask_at_the_end(TrainerEvent& event) {
  const auto& [args, state, control] = std::tie(event.args, event.state, event.control);
  control.should_training_stop = true;
  if (args.eval_strategy == IntervalStrategy::steps &&
      args.eval_delay <= static_cast<double>(state.global_step))
    control.should_evaluate = true;
  if (args.save_strategy == SaveStrategy::steps) control.should_save = true;
}

}  // namespace

void DefaultFlowCallback::on_step_end(TrainerEvent& event) {
  const auto& [args, state, control] = std::tie(event.args, event.state, event.control);
  const auto step = state.global_step;
  if (step == 1 && args.logging_first_step) control.should_log = true;
  if (args.logging_strategy == IntervalStrategy::steps && is_turn(step, state.logging_steps))
    control.should_log = true;
  if (args.eval_strategy == IntervalStrategy::steps && is_turn(step, state.eval_steps) &&
      args.eval_delay <= static_cast<double>(step))
    control.should_evaluate = true;
  if (args.save_strategy == SaveStrategy::steps && is_turn(step, state.save_steps))
    control.should_save = true;
  if (step >= state.max_steps) ask_at_the_end(event);
}

void DefaultFlowCallback::on_epoch_end(TrainerEvent& event) {
  const auto& [args, state, control] = std::tie(event.args, event.state, event.control);
  if (args.logging_strategy == IntervalStrategy::epoch) control.should_log = true;
  if (args.eval_strategy == IntervalStrategy::epoch && args.eval_delay <= state.epoch)
    control.should_evaluate = true;
  if (args.save_strategy == SaveStrategy::epoch) control.should_save = true;
}

}  // namespace accelerate
