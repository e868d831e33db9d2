#include "accelerate/transformers/trainer/callbacks/callback_list.h"

#include <algorithm>
#include <map>
#include <utility>

#include "accelerate/base/error.h"

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
  for (auto& [name, nodes] : saved) {
    state.stateful_callbacks[name] =
        nodes.size() == 1 ? std::move(nodes.front()) : Node::sequence(std::move(nodes));
  }
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
