#include "accelerate/watch/run_log/run_event_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace accelerate::detail {
namespace {

using Json = nlohmann::json;

constexpr int kDeepestNode = 12;
constexpr std::size_t kMostMetrics = 1'000;  // For one event.

const Json* field_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::optional<double> number_field(const Json& object, const char* name) {
  const Json* value = field_of(object, name);
  return value ? run_number(*value) : std::nullopt;
}

std::optional<std::int64_t> whole_field(const Json& object, const char* name) {
  constexpr double kLargest = 9e18;
  const auto number = number_field(object, name);
  if (!number || !(std::abs(*number) <= kLargest)) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::string text_field(const Json& object, const char* name) {
  const Json* value = field_of(object, name);
  return value && value->is_string() ? value->get<std::string>() : std::string();
}

bool flag_field(const Json& object, const char* name) {
  const Json* value = field_of(object, name);
  return value && value->is_boolean() && value->get<bool>();
}

Node node_field(const Json& object, const char* name) {
  const Json* value = field_of(object, name);
  return value && value->is_object() ? run_node(*value) : Node::null();
}

RunMetrics metrics_of(const Json& object) {
  RunMetrics metrics;
  for (const auto& [name, value] : object.items()) {
    const auto number = run_number(value);
    if (number && metrics.size() < kMostMetrics) metrics.emplace_back(name, *number);
  }
  return metrics;
}

RunMetrics metrics_field(const Json& object) {
  const Json* value = field_of(object, "metrics");
  return value && value->is_object() ? metrics_of(*value) : RunMetrics{};
}

template <typename Event>
Event stamped(const Json& object) {
  Event event;
  event.step = whole_field(object, "step").value_or(0);
  event.time = number_field(object, "time");
  if (event.time && !(std::abs(*event.time) < 1e12)) event.time.reset();
  return event;
}

RunBegin begin_of(const Json& object) {
  auto event = stamped<RunBegin>(object);
  event.max_steps = whole_field(object, "max_steps");
  event.num_train_epochs = number_field(object, "num_train_epochs");
  event.steps_per_epoch = whole_field(object, "steps_per_epoch");
  event.num_processes = whole_field(object, "num_processes");
  event.model = text_field(object, "model");
  event.parameters = whole_field(object, "parameters");
  event.trained_parameters = whole_field(object, "trained_parameters");
  event.train_examples = whole_field(object, "train_examples");
  event.total_batch_size = whole_field(object, "total_batch_size");
  event.arguments = node_field(object, "arguments");
  event.argument_defaults = node_field(object, "argument_defaults");
  if (const auto from = text_field(object, "resumed_from"); !from.empty())
    event.resumed_from = from;
  event.strategy = text_field(object, "strategy");
  event.precision = text_field(object, "precision");
  event.device = text_field(object, "device");
  return event;
}

std::optional<StepSeconds> step_seconds_of(const Json& object) {
  const Json* value = field_of(object, "step_seconds");
  if (!value || !value->is_object()) return std::nullopt;
  const auto part = [&](std::size_t i) {
    const double seconds = number_field(*value, StepSeconds::kNames[i].data()).value_or(0);
    return std::isfinite(seconds) ? std::clamp(seconds, 0.0, 1e9) : 0;
  };
  return StepSeconds{part(0), part(1), part(2), part(3), part(4), part(5)};
}

bool is_field_of_log(std::string_view name) {
  constexpr std::array<std::string_view, 10> kFields = {"epoch",
                                                        "event",
                                                        "grad_norm",
                                                        "learning_rate",
                                                        "loss",
                                                        "memory_bytes",
                                                        "samples_per_second",
                                                        "step",
                                                        "time",
                                                        "tokens_per_second"};
  return std::ranges::binary_search(kFields, name);
}

RunMetrics other_numbers(const Json& object) {
  RunMetrics others;
  for (const auto& [name, value] : object.items()) {
    if (is_field_of_log(name) || others.size() >= kMostMetrics) continue;
    if (const auto number = run_number(value)) others.emplace_back(name, *number);
  }
  return others;
}

RunLogged logged_of(const Json& object) {
  auto event = stamped<RunLogged>(object);
  event.epoch = number_field(object, "epoch");
  event.loss = number_field(object, "loss");
  event.grad_norm = number_field(object, "grad_norm");
  event.learning_rate = number_field(object, "learning_rate");
  event.samples_per_second = number_field(object, "samples_per_second");
  event.tokens_per_second = number_field(object, "tokens_per_second");
  event.memory_bytes = number_field(object, "memory_bytes");
  event.step_seconds = step_seconds_of(object);
  event.others = other_numbers(object);
  return event;
}

RunEvaluated evaluated_of(const Json& object) {
  auto event = stamped<RunEvaluated>(object);
  event.epoch = number_field(object, "epoch");
  event.metrics = metrics_field(object);
  return event;
}

RunSaved saved_of(const Json& object) {
  auto event = stamped<RunSaved>(object);
  event.folder = text_field(object, "folder");
  event.best = flag_field(object, "best");
  return event;
}

RunNote note_of(const Json& object) {
  auto event = stamped<RunNote>(object);
  event.text = text_field(object, "text");
  event.level = text_field(object, "level");
  return event;
}

RunEnd end_of(const Json& object) {
  auto event = stamped<RunEnd>(object);
  event.reason = text_field(object, "reason");
  event.metrics = metrics_field(object);
  return event;
}

// Returns the length of a bare NaN, Infinity or -Infinity at the start of `text`, else 0.
std::size_t bare_number_length(std::string_view text) {
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"})
    if (text.starts_with(word)) return word.size();
  return 0;
}

// Puts quotes around NaN and the infinities, which JSON does not have.
std::string quote_bare_numbers(std::string_view text) {
  std::string result;
  bool inside = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = inside ? 0 : bare_number_length(text.substr(i));
    if (length > 0) {
      result.append("\"").append(text.substr(i, length)).append("\"");
      i += length;
      continue;
    }
    if (text[i] == '"') inside = !inside;
    if (inside && text[i] == '\\' && i + 1 < text.size()) result += text[i++];
    result += text[i++];
  }
  return result;
}

Node node_at(const Json& value, int depth) {
  if (value.is_null() || depth > kDeepestNode) return Node::null();
  if (value.is_string()) return Node::string(value.get<std::string>());
  if (value.is_boolean()) return Node::boolean(value.get<bool>());
  if (value.is_object()) {
    Node node = Node::map();
    for (const auto& [name, below] : value.items())
      node.entries.push_back({name, 0, node_at(below, depth + 1)});
    return node;
  }
  if (value.is_array()) {
    Node node = Node::sequence();
    for (const auto& below : value) node.items.push_back(node_at(below, depth + 1));
    return node;
  }
  Node number = Node::string(value.dump());
  number.quoted = false;
  return number;
}

}  // namespace

std::optional<double> run_number(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "nan" || text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf" || text == "Infinity") return kInfinity;
  if (text == "-inf" || text == "-Infinity") return -kInfinity;
  return std::nullopt;
}

Node run_node(const Json& value) {
  return node_at(value, 0);
}

Json parse_lenient_json(std::string_view text) {
  Json value = Json::parse(text, nullptr, false);
  if (!value.is_discarded()) return value;
  return Json::parse(quote_bare_numbers(text), nullptr, false);
}

std::optional<RunEvent> parse_run_event(std::string_view line) {
  const Json object = parse_lenient_json(line);
  if (!object.is_object()) return std::nullopt;
  const std::string name = text_field(object, "event");
  if (name == "log") return logged_of(object);
  if (name == "evaluate") return evaluated_of(object);
  if (name == "save") return saved_of(object);
  if (name == "note") return note_of(object);
  if (name == "begin") return begin_of(object);
  if (name == "end") return end_of(object);
  return std::nullopt;
}

}  // namespace accelerate::detail
