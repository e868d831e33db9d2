#include "accelerate/watch/run_log/run_event_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "accelerate/formats/documents/json.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr int kDeepestNode = 12;
constexpr std::size_t kMostMetrics = 1'000;  // For one event.

const std::array<std::pair<std::string_view, RunEvent>, 6> kEvents = {{{"begin", RunBegin{}},
                                                                       {"log", RunLogged{}},
                                                                       {"evaluate", RunEvaluated{}},
                                                                       {"save", RunSaved{}},
                                                                       {"note", RunNote{}},
                                                                       {"end", RunEnd{}}}};

// Visits the fields that an event has beside its time and step, in the order of a line. Reading and
// writing both use it.
template <typename Field>
void visit_fields(RunBegin& event, Field& field) {
  field("max_steps", event.max_steps);
  field("num_train_epochs", event.num_train_epochs);
  field("steps_per_epoch", event.steps_per_epoch);
  field("num_processes", event.num_processes);
  field("model", event.model);
  field("parameters", event.parameters);
  field("trained_parameters", event.trained_parameters);
  field("train_examples", event.train_examples);
  field("total_batch_size", event.total_batch_size);
  field("arguments", event.arguments);
  field("argument_defaults", event.argument_defaults);
  field("resumed_from", event.resumed_from);
  field("strategy", event.strategy);
  field("precision", event.precision);
  field("device", event.device);
}

template <typename Field>
void visit_fields(RunLogged& event, Field& field) {
  field("epoch", event.epoch);
  field("loss", event.loss);
  field("grad_norm", event.grad_norm);
  field("learning_rate", event.learning_rate);
  field("samples_per_second", event.samples_per_second);
  field("tokens_per_second", event.tokens_per_second);
  field("memory_bytes", event.memory_bytes);
  field("step_seconds", event.step_seconds);
  field.rest(event.others);
}

template <typename Field>
void visit_fields(RunEvaluated& event, Field& field) {
  field("epoch", event.epoch);
  field("metrics", event.metrics);
}

template <typename Field>
void visit_fields(RunSaved& event, Field& field) {
  field("folder", event.folder);
  field("best", event.best);
}

template <typename Field>
void visit_fields(RunNote& event, Field& field) {
  field("text", event.text);
  field("level", event.level);
}

template <typename Field>
void visit_fields(RunEnd& event, Field& field) {
  field("reason", event.reason);
  field("metrics", event.metrics);
}

Node node_of(const Json& value, int depth = 0) {
  if (value.is_null() || depth > kDeepestNode) return Node::null();
  if (value.is_string()) return Node::string(value.get<std::string>());
  if (value.is_boolean()) return Node::boolean(value.get<bool>());
  if (value.is_object()) {
    Node node = Node::map();
    for (const auto& [name, below] : value.items())
      node.entries.push_back({name, 0, node_of(below, depth + 1)});
    return node;
  }
  if (value.is_array()) {
    Node node = Node::sequence();
    for (const auto& below : value) node.items.push_back(node_of(below, depth + 1));
    return node;
  }
  return Node::plain(json_text(value));
}

// Gives each field the value that the object of a line has for it.
class FieldReader {
 public:
  explicit FieldReader(const Json& object) : object_(object) {}

  void operator()(const char* name, std::optional<double>& value) { value = number(name); }
  void operator()(const char* name, std::optional<std::int64_t>& value) {
    constexpr double kLargest = 9e18;
    const auto found = number(name);
    value.reset();
    if (found && std::abs(*found) <= kLargest) value = static_cast<std::int64_t>(*found);
  }
  void operator()(const char* name, std::string& value) {
    const Json* found = find(name);
    value = found && found->is_string() ? found->get<std::string>() : std::string();
  }
  void operator()(const char* name, std::optional<std::string>& value) {
    std::string text;
    (*this)(name, text);
    if (!text.empty()) value = std::move(text);
  }
  void operator()(const char* name, bool& value) {
    const Json* found = find(name);
    value = found && found->is_boolean() && found->get<bool>();
  }
  void operator()(const char* name, Node& value) {
    if (const Json* found = object(name)) value = node_of(*found);
  }
  void operator()(const char* name, RunMetrics& value) {
    if (const Json* found = object(name)) value = metrics_in(*found, {});
  }
  void operator()(const char* name, std::optional<StepSeconds>& value) {
    const Json* found = object(name);
    if (!found) return;
    FieldReader parts(*found);
    const auto part = [&](std::size_t i) {
      const double seconds = parts.number(StepSeconds::kNames[i].data()).value_or(0);
      return std::isfinite(seconds) ? std::clamp(seconds, 0.0, 1e9) : 0;
    };
    value = StepSeconds{part(0), part(1), part(2), part(3), part(4), part(5)};
  }
  // Takes the numbers whose names no field has.
  void rest(RunMetrics& others) { others = metrics_in(object_, known_); }

 private:
  const Json* find(const char* name) {
    known_.emplace_back(name);
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  const Json* object(const char* name) {
    const Json* found = find(name);
    return found && found->is_object() ? found : nullptr;
  }
  std::optional<double> number(const char* name) {
    const Json* found = find(name);
    return found ? run_number(*found) : std::nullopt;
  }
  static RunMetrics metrics_in(const Json& object, const std::vector<std::string_view>& known) {
    RunMetrics metrics;
    for (const auto& [name, value] : object.items()) {
      if (metrics.size() >= kMostMetrics || std::ranges::find(known, name) != known.end()) continue;
      if (const auto number = run_number(value)) metrics.emplace_back(name, *number);
    }
    return metrics;
  }

  const Json& object_;
  std::vector<std::string_view> known_;  // The names of the fields so far.
};

OrderedJson json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

OrderedJson json_scalar(const Node& node) {
  if (node.quoted) return node.text;
  const ScalarKind kind = resolve_scalar(node.text);
  if (kind == ScalarKind::boolean) return node.text == "true" || node.text == "True";
  if (kind == ScalarKind::null) return nullptr;
  if (node.text == ".nan" || node.text == ".inf" || node.text == "-.inf")
    return json_number(node.text[1] == 'n' ? NAN : node.text[0] == '-' ? -INFINITY : INFINITY);
  const OrderedJson number = parse_json(node.text);
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

// Puts each field into the object of a line.
struct FieldWriter {
  OrderedJson& object;

  template <typename Value>
  void operator()(const char* name, const Value& value) {
    object[name] = value;
  }
  void operator()(const char* name, const std::optional<double>& value) {
    if (value) object[name] = json_number(*value);
  }
  void operator()(const char* name, const std::optional<std::int64_t>& value) {
    if (value) object[name] = *value;
  }
  void operator()(const char* name, const std::optional<std::string>& value) {
    object[name] = value ? OrderedJson(*value) : OrderedJson();
  }
  void operator()(const char* name, const Node& value) {
    if (!value.is_null()) object[name] = json_node(value);
  }
  void operator()(const char* name, const RunMetrics& metrics) {
    OrderedJson& numbers = object[name] = OrderedJson::object();
    for (const auto& [metric, value] : metrics) numbers[metric] = json_number(value);
  }
  void operator()(const char* name, const std::optional<StepSeconds>& value) {
    if (!value) return;
    OrderedJson& parts = object[name] = OrderedJson::object();
    for (std::size_t i = 0; i < kStepParts; ++i)
      parts[std::string(StepSeconds::kNames[i])] = json_number(value->parts()[i]);
  }
  void rest(const RunMetrics& others) {
    for (const auto& [name, value] : others)
      if (!object.contains(name)) object[name] = json_number(value);
  }
};

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

Json parse_lenient_json(std::string_view text) {
  Json value = parse_json(text);
  if (value.is_discarded()) value = parse_json(quote_bare_numbers(text));
  return value;  // Never copied: a copy takes stack for each level.
}

std::optional<RunEvent> parse_run_event(std::string_view line) {
  const Json object = parse_lenient_json(line);
  if (!object.is_object()) return std::nullopt;
  FieldReader field(object);
  std::string name;
  field("event", name);
  const auto found =
      std::ranges::find(kEvents, name, [](const auto& known) { return known.first; });
  if (found == kEvents.end()) return std::nullopt;
  RunEvent event = found->second;
  std::visit(
      [&](auto& held) {
        std::optional<std::int64_t> step;
        field("step", step);
        held.step = step.value_or(0);
        field("time", held.time);
        if (held.time && !(std::abs(*held.time) < 1e12)) held.time.reset();
        visit_fields(held, field);
      },
      event);
  return event;
}

std::string run_event_line(RunEvent event) {
  OrderedJson object;
  object["event"] = kEvents[event.index()].first;
  FieldWriter field{object};
  std::visit(
      [&](auto& held) {
        field("time", held.time);
        field("step", held.step);
        visit_fields(held, field);
      },
      event);
  return json_text(object) + "\n";
}

}  // namespace accelerate::detail
