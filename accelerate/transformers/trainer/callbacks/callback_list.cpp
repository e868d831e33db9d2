#include "accelerate/transformers/trainer/callbacks/callback_list.h"

#include <algorithm>
#include <map>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/trainer/arguments/training_arguments.h"

namespace accelerate::detail {

void CallbackList::add(std::shared_ptr<TrainerCallback> callback) {
  if (callback == nullptr) throw UsageError("a Trainer was given a callback that is null");
  callbacks_.push_back(std::move(callback));
}

std::shared_ptr<TrainerCallback> CallbackList::pop(std::string_view name) {
  const auto place = std::ranges::find_if(
      callbacks_, [&](const auto& callback) { return callback->name() == name; });
  if (place == callbacks_.end()) return nullptr;
  auto callback = std::move(*place);
  callbacks_.erase(place);
  return callback;
}

// The states of several callbacks with the same name become a list, as in Python.
void CallbackList::save_into(TrainerState& state) const {
  std::map<std::string, std::vector<Node>> saved;
  for (const auto& callback : callbacks_) {
    Node node = callback->state();
    if (!node.is_null()) saved[callback->name()].push_back(std::move(node));
  }
  for (auto& [name, nodes] : saved)
    state.stateful_callbacks[name] =
        nodes.size() == 1 ? std::move(nodes.front()) : Node::sequence(std::move(nodes));
}

void CallbackList::load_from(const TrainerState& state) const {
  std::map<std::string, std::size_t> used;
  for (const auto& callback : callbacks_) {
    const auto saved = state.stateful_callbacks.find(callback->name());
    if (saved == state.stateful_callbacks.end()) continue;
    const Node& node = saved->second;
    if (!node.is_sequence()) {
      callback->load_state(node);
    } else if (const auto index = used[callback->name()]++; index < node.items.size()) {
      callback->load_state(node.items[index]);
    }
  }
}

}  // namespace accelerate::detail

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
