#include "accelerate/transformers/trainer/trainer_state.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/documents/python_json.h"

namespace accelerate {
namespace {

// Long trainings that log often have long histories.
constexpr DocumentLimits kStateLimits{.max_bytes = std::size_t{1} << 28, .max_depth = 32};

// Whether a logged value is a count.
bool is_count(std::string_view name) {
  return name == "step" || name == "num_input_tokens_seen";
}

Node node_of(const LogValues& values) {
  Node node = Node::map();
  for (const auto& [name, value] : values) {
    const bool whole = is_count(name) && std::trunc(value) == value;
    node.entries.push_back(
        {name, 0, whole ? Node::integer(static_cast<std::int64_t>(value)) : Node::real(value)});
  }
  return node;
}

Node node_of(bool value) {
  return Node::boolean(value);
}
Node node_of(std::int64_t value) {
  return Node::integer(value);
}
Node node_of(double value) {
  return Node::real(value);
}
Node node_of(const std::string& value) {
  return value.empty() ? Node::null() : Node::string(value);
}
template <typename T>
Node node_of(const std::optional<T>& value) {
  return value ? node_of(*value) : Node::null();
}

// Visits each flag with its name in the file.
template <typename Control, typename Flag>
void for_each_flag(Control& control, Flag&& flag) {
  flag("should_training_stop", control.should_training_stop);
  flag("should_epoch_stop", control.should_epoch_stop);
  flag("should_save", control.should_save);
  flag("should_evaluate", control.should_evaluate);
  flag("should_log", control.should_log);
}

Node node_of(const TrainerControl& control) {
  Node args = Node::map();
  for_each_flag(control, [&](const char* name, bool value) {
    args.entries.push_back({name, 0, node_of(value)});
  });
  return Node::map({{"args", 0, std::move(args)}, {"attributes", 0, Node::map()}});
}

void read_state(const Node& node, bool& value) {
  value = parse_bool(node.text).value_or(value);
}
void read_state(const Node& node, std::int64_t& value) {
  const auto number = parse_double(node.text);
  if (number && std::fabs(*number) < 9e15) value = static_cast<std::int64_t>(*number);
}
void read_state(const Node& node, double& value) {
  if (node.text == "Infinity" || node.text == "-Infinity") {
    value = node.text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
  } else {
    value = node.text == "NaN" ? std::nan("") : parse_double(node.text).value_or(value);
  }
}
void read_state(const Node& node, std::string& value) {
  value = node.text;
}
template <typename T>
void read_state(const Node& node, std::optional<T>& value) {
  value.emplace();
  read_state(node, *value);
}

// Visits each field with its name in the file.
template <typename State, typename Field>
void for_each_field(State& state, Field&& field) {
  field("best_global_step", state.best_global_step);
  field("best_metric", state.best_metric);
  field("best_model_checkpoint", state.best_model_checkpoint);
  field("epoch", state.epoch);
  field("eval_steps", state.eval_steps);
  field("global_step", state.global_step);
  field("is_local_process_zero", state.is_local_process_zero);
  field("is_world_process_zero", state.is_world_process_zero);
  field("logging_steps", state.logging_steps);
  field("max_steps", state.max_steps);
  field("num_input_tokens_seen", state.num_input_tokens_seen);
  field("num_train_epochs", state.num_train_epochs);
  field("save_steps", state.save_steps);
  field("total_flos", state.total_flos);
  field("train_batch_size", state.train_batch_size);
}

// NaN and infinities are in quotes then.
bool is_number(const Node& value) {
  return value.is_scalar() && (!value.quoted || value.text == "NaN" || value.text == "Infinity" ||
                               value.text == "-Infinity");
}

void read_history(const Node& node, std::vector<LogValues>& history) {
  for (const Node& item : node.items) {
    LogValues values;
    for (const auto& [name, line, value] : item.entries) {
      if (!is_number(value)) continue;
      double number = 0;
      read_state(value, number);
      values.set(name, number);
    }
    history.push_back(std::move(values));
  }
}

void read_control(const Node& saved, TrainerControl& control) {
  const Node* args = saved.find("args");
  if (args == nullptr) return;
  for_each_flag(control, [&](const char* name, bool& value) {
    if (const Node* node = args->find(name)) read_state(*node, value);
  });
}

}  // namespace

double LogValues::operator[](std::string_view name) const {
  if (const double* value = find(name)) return *value;
  std::vector<std::string> names;
  for (const auto& [known, value] : *this) names.push_back(known);
  throw UsageError("there is no value '" + std::string(name) + "'; there are " + join(names, ", ") +
                   "." + did_you_mean(std::string(name), names));
}

const double* LogValues::find(std::string_view name) const {
  const auto place = std::ranges::find(values_, name, &Value::first);
  return place == values_.end() ? nullptr : &place->second;
}

void LogValues::set(std::string_view name, double value) {
  const auto place = std::ranges::find(values_, name, &Value::first);
  if (place != values_.end()) {
    place->second = value;
  } else {
    values_.emplace_back(std::string(name), value);
  }
}

LogValues LogValues::sorted() const {
  LogValues sorted = *this;
  std::ranges::sort(sorted.values_);
  return sorted;
}

std::string TrainerState::to_json() const {
  Node root = Node::map();
  const auto add = [&](const char* name, Node node) {
    root.entries.push_back({name, 0, std::move(node)});
  };
  for_each_field(*this, [&](const char* name, const auto& value) { add(name, node_of(value)); });
  std::vector<Node> history;
  for (const auto& values : log_history) history.push_back(node_of(values));
  add("log_history", Node::sequence(std::move(history)));
  add("is_hyper_param_search", Node::boolean(false));
  add("trial_name", Node::null());
  add("trial_params", Node::null());
  Node callbacks = Node::map();
  for (const auto& [name, node] : stateful_callbacks) callbacks.entries.push_back({name, 0, node});
  callbacks.entries.push_back({"TrainerControl", 0, node_of(control)});
  add("stateful_callbacks", std::move(callbacks));
  return write_json(root);
}

TrainerState TrainerState::from_json(std::string_view text, const std::string& name) {
  const Node root = read_json(detail::with_quoted_infinities(text), name, kStateLimits);
  if (!root.is_map() || root.find("global_step") == nullptr)
    throw ConfigError(name + " is not a trainer_state.json: it has no global_step");
  TrainerState state;
  for_each_field(state, [&](const char* key, auto& value) {
    const Node* node = root.find(key);
    if (node != nullptr && node->is_scalar()) read_state(*node, value);
  });
  if (const Node* history = root.find("log_history")) read_history(*history, state.log_history);
  if (const Node* callbacks = root.find("stateful_callbacks")) {
    for (const auto& [key, line, node] : callbacks->entries) {
      if (key == "TrainerControl") {
        read_control(node, state.control);
      } else {
        state.stateful_callbacks.emplace(key, node);
      }
    }
  }
  return state;
}

TrainerState TrainerState::load(const std::filesystem::path& file) {
  return from_json(read_file(real_file_system(), file, kStateLimits.max_bytes), file.string());
}

}  // namespace accelerate
