#include "accelerate/transformers/hub/model_card.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/utf8.h"
#include "accelerate/formats/documents/document.h"
#include "accelerate/formats/documents/yaml.h"

namespace accelerate {
namespace {

using Texts = std::vector<std::string>;

[[noreturn]] void refuse(std::string_view field, const std::string& fault) {
  throw ConfigError("the field " + std::string(field) + " of the model card " + fault);
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

// What a field may contain.
enum class Rule { any_text, one_line };

void check(std::string_view field, const std::string& text, Rule rule) {
  if (!is_utf8(text)) refuse(field, "is not UTF-8");
  if (rule == Rule::any_text || std::none_of(text.begin(), text.end(), is_control)) return;
  std::string shown = text;
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  refuse(field, "must be one line, but '" + std::string(fit_bytes(shown, 120)) +
                    "' holds a line end or another control character (shown as '?')");
}

// Adds the fields of one map. Empty optional fields are left out.
class MapWriter {
 public:
  /// `prefix` begins the names of fields in messages: "eval_results[2].".
  explicit MapWriter(std::string prefix = "") : prefix_(std::move(prefix)) {}

  void text(const char* key, const char* field, const std::string& text, Rule rule) {
    if (text.empty()) return;
    check(prefix_ + field, text, rule);
    add(key, Node::string(text));
  }
  void required(const char* key, const char* field, const std::string& text, Rule rule) {
    if (text.empty()) refuse(prefix_ + field, "is empty: fill it");
    this->text(key, field, text, rule);
  }
  void list(const char* key, const char* field, const Texts& texts);
  void add(const char* key, Node value) { map_.entries.push_back({key, 0, std::move(value)}); }
  [[nodiscard]] Node take() { return std::move(map_); }

 private:
  std::string prefix_;
  Node map_ = Node::map();
};

void MapWriter::list(const char* key, const char* field, const Texts& texts) {
  if (texts.empty()) return;
  Node items = Node::sequence();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string name = prefix_ + field + "[" + std::to_string(i) + "]";
    if (texts[i].empty()) refuse(name, "is empty: fill it or leave it out");
    check(name, texts[i], Rule::one_line);
    items.items.push_back(Node::string(texts[i]));
  }
  add(key, std::move(items));
}

Node value_of(const EvalResult& result, const std::string& prefix) {
  const auto& value = result.metric_value;
  if (const auto* real = std::get_if<double>(&value)) return Node::real(*real);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return Node::integer(*integer);
  const auto& text = std::get<std::string>(value);
  if (text.empty()) refuse(prefix + "metric_value", "is empty: give a number or a text");
  check(prefix + "metric_value", text, Rule::any_text);
  return Node::string(text);
}

Node task_of(const EvalResult& result, const std::string& prefix) {
  MapWriter task(prefix);
  task.required("type", "task_type", result.task_type, Rule::one_line);
  task.text("name", "task_name", result.task_name, Rule::any_text);
  return task.take();
}

Node dataset_of(const EvalResult& result, const std::string& prefix) {
  MapWriter dataset(prefix);
  dataset.required("name", "dataset_name", result.dataset_name, Rule::any_text);
  dataset.required("type", "dataset_type", result.dataset_type, Rule::one_line);
  dataset.text("config", "dataset_config", result.dataset_config, Rule::one_line);
  dataset.text("split", "dataset_split", result.dataset_split, Rule::one_line);
  dataset.text("revision", "dataset_revision", result.dataset_revision, Rule::one_line);
  return dataset.take();
}

Node metric_of(const EvalResult& result, const std::string& prefix) {
  MapWriter metric(prefix);
  metric.required("type", "metric_type", result.metric_type, Rule::one_line);
  metric.add("value", value_of(result, prefix));
  metric.text("name", "metric_name", result.metric_name, Rule::any_text);
  return metric.take();
}

// Results with an equal identity share an entry of `model-index`. Source: `unique_identifier`.
auto identity_of(const EvalResult& result) {
  return std::tie(result.task_type, result.dataset_type, result.dataset_config,
                  result.dataset_split, result.dataset_revision);
}

// An entry of `model-index` before it is written.
struct Group {
  const EvalResult* first;
  Node task;
  Node dataset;
  Node metrics = Node::sequence();
};

// Returns the groups in the order in which they first appear.
std::vector<Group> groups_of(const std::vector<EvalResult>& results) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const EvalResult& result = results[i];
    const std::string prefix = "eval_results[" + std::to_string(i) + "].";
    Node task = task_of(result, prefix);  // Checks names that are not written, too.
    Node dataset = dataset_of(result, prefix);
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
      return identity_of(*other.first) == identity_of(result);
    });
    if (group == groups.end()) {
      group = groups.insert(group, {&result, std::move(task), std::move(dataset)});
    }
    group->metrics.items.push_back(metric_of(result, prefix));
  }
  return groups;
}

// Source: `eval_results_to_model_index`.
Node model_index(const ModelCard& card) {
  if (card.model_name.empty()) {
    refuse("model_name", "is empty, but there are eval_results: name the model they belong to");
  }
  Node results = Node::sequence();
  for (Group& group : groups_of(card.eval_results)) {
    MapWriter result;
    result.add("task", std::move(group.task));
    result.add("dataset", std::move(group.dataset));
    result.add("metrics", std::move(group.metrics));
    results.items.push_back(result.take());
  }
  MapWriter model;
  model.required("name", "model_name", card.model_name, Rule::any_text);
  model.add("results", std::move(results));
  return Node::sequence({model.take()});
}

Texts without_repeats(const Texts& texts) {
  Texts once;
  for (const auto& text : texts) {
    if (std::find(once.begin(), once.end(), text) == once.end()) once.push_back(text);
  }
  return once;
}

void add_texts(MapWriter& map, const ModelCard& card) {
  map.text("license", "license", card.license, Rule::one_line);
  map.text("license_name", "license_name", card.license_name, Rule::any_text);
  map.text("license_link", "license_link", card.license_link, Rule::any_text);
  map.text("library_name", "library_name", card.library_name, Rule::one_line);
  map.text("pipeline_tag", "pipeline_tag", card.pipeline_tag, Rule::one_line);
}

void add_lists(MapWriter& map, const ModelCard& card) {
  map.list("language", "languages", card.languages);
  map.list("datasets", "datasets", card.datasets);
  map.list("metrics", "metrics", card.metrics);
  map.list("tags", "tags", without_repeats(card.tags));
  if (card.base_models.size() == 1) {
    map.required("base_model", "base_models[0]", card.base_models[0], Rule::one_line);
  } else {
    map.list("base_model", "base_models", card.base_models);
  }
}

}  // namespace

std::string write_model_card(const ModelCard& card) {
  MapWriter map;
  add_texts(map, card);
  add_lists(map, card);
  if (card.eval_results.empty()) {
    map.text("model_name", "model_name", card.model_name, Rule::any_text);
  } else {
    map.add("model-index", model_index(card));
  }
  check("text", card.text, Rule::any_text);
  return "---\n" + write_yaml(map.take()) + "---\n" + card.text;
}

}  // namespace accelerate
