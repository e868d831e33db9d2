#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "accelerate/watch/run_log/run_event_json.h"

namespace accelerate::detail {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

template <typename Value>
void put(OrderedJson& object, const char* name, const std::optional<Value>& value) {
  if (!value) return;
  if constexpr (std::is_same_v<Value, double>) {
    object[name] = json_number(*value);
  } else {
    object[name] = *value;
  }
}

OrderedJson json_metrics(const RunMetrics& metrics) {
  OrderedJson object = OrderedJson::object();
  for (const auto& [name, value] : metrics) object[name] = json_number(value);
  return object;
}

OrderedJson json_scalar(const Node& node) {
  if (node.quoted) return node.text;
  const ScalarKind kind = resolve_scalar(node.text);
  if (kind == ScalarKind::boolean) return node.text == "true" || node.text == "True";
  if (kind == ScalarKind::null) return nullptr;
  if (node.text == ".nan" || node.text == ".inf" || node.text == "-.inf")
    return json_number(node.text[1] == 'n' ? NAN : node.text[0] == '-' ? -INFINITY : INFINITY);
  const auto number = OrderedJson::parse(node.text, nullptr, false);
  if (number.is_number()) return number;
  return node.text;
}

OrderedJson json_node(const Node& node) {
  if (node.is_null()) return nullptr;
  if (node.is_scalar()) return json_scalar(node);
  OrderedJson value = node.is_map() ? OrderedJson::object() : OrderedJson::array();
  for (const Node& item : node.items) value.push_back(json_node(item));
  for (const auto& entry : node.entries) value[entry.key] = json_node(entry.value);
  return value;
}

void fill(OrderedJson& object, const RunBegin& event) {
  put(object, "max_steps", event.max_steps);
  put(object, "num_train_epochs", event.num_train_epochs);
  put(object, "steps_per_epoch", event.steps_per_epoch);
  put(object, "num_processes", event.num_processes);
  object["model"] = event.model;
  put(object, "parameters", event.parameters);
  put(object, "trained_parameters", event.trained_parameters);
  put(object, "train_examples", event.train_examples);
  put(object, "total_batch_size", event.total_batch_size);
  object["arguments"] = json_node(event.arguments);
  if (event.argument_defaults.is_map())
    object["argument_defaults"] = json_node(event.argument_defaults);
  object["resumed_from"] = event.resumed_from ? OrderedJson(*event.resumed_from) : OrderedJson();
  object["strategy"] = event.strategy;
  object["precision"] = event.precision;
  object["device"] = event.device;
}

void fill(OrderedJson& object, const RunLogged& event) {
  put(object, "epoch", event.epoch);
  put(object, "loss", event.loss);
  put(object, "grad_norm", event.grad_norm);
  put(object, "learning_rate", event.learning_rate);
  put(object, "samples_per_second", event.samples_per_second);
  put(object, "tokens_per_second", event.tokens_per_second);
  put(object, "memory_bytes", event.memory_bytes);
  if (event.step_seconds) {
    OrderedJson& parts = object["step_seconds"] = OrderedJson::object();
    const auto seconds = event.step_seconds->parts();
    for (std::size_t i = 0; i < kStepParts; ++i)
      parts[std::string(StepSeconds::kNames[i])] = json_number(seconds[i]);
  }
  for (const auto& [name, value] : event.others)
    if (!object.contains(name)) object[name] = json_number(value);
}

void fill(OrderedJson& object, const RunEvaluated& event) {
  put(object, "epoch", event.epoch);
  object["metrics"] = json_metrics(event.metrics);
}

void fill(OrderedJson& object, const RunSaved& event) {
  object["folder"] = event.folder;
  object["best"] = event.best;
}

void fill(OrderedJson& object, const RunNote& event) {
  object["text"] = event.text;
  object["level"] = event.level;
}

void fill(OrderedJson& object, const RunEnd& event) {
  object["reason"] = event.reason;
  object["metrics"] = json_metrics(event.metrics);
}

constexpr std::array<const char*, 6> kEventNames = {"begin", "log",  "evaluate",
                                                    "save",  "note", "end"};

}  // namespace

std::string run_event_line(const RunEvent& event) {
  OrderedJson object;
  object["event"] = kEventNames[event.index()];
  std::visit(
      [&](const auto& held) {
        put(object, "time", held.time);
        object["step"] = held.step;
        fill(object, held);
      },
      event);
  return object.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace accelerate::detail
