#include "accelerate/transformers/models/config/pretrained_config.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/hub/download.h"

namespace accelerate {
namespace {

constexpr std::int64_t kMostLabels = 1 << 24;

constexpr DocumentLimits kLimits{.max_bytes = 16 << 20, .max_depth = 32};

template <typename T>
struct Kind;
template <>
struct Kind<bool> {
  static constexpr const char* allowed = "true or false";
  static std::optional<bool> read(const Node& node) {
    if (!node.is_scalar() || node.quoted) return std::nullopt;
    if (node.text != "true" && node.text != "false") return std::nullopt;
    return node.text == "true";
  }
  static Node write(bool value) { return Node::boolean(value); }
};
template <>
struct Kind<std::int64_t> {
  static constexpr const char* allowed = "an integer";
  static std::optional<std::int64_t> read(const Node& node) {
    if (!node.is_scalar() || node.quoted) return std::nullopt;
    return parse_int(node.text);
  }
  static Node write(std::int64_t value) { return Node::integer(value); }
};
template <>
struct Kind<double> {
  static constexpr const char* allowed = "a number";
  static std::optional<double> read(const Node& node) {
    if (!node.is_scalar() || node.quoted) return std::nullopt;
    return parse_double(node.text);
  }
  static Node write(double value) { return Node::real(value); }
};
template <>
struct Kind<std::string> {
  static constexpr const char* allowed = "a text";
  static std::optional<std::string> read(const Node& node) {
    if (!node.is_scalar() || !node.quoted) return std::nullopt;
    return node.text;
  }
  static Node write(const std::string& value) { return Node::string(value); }
};
template <typename T>
struct Kind<std::vector<T>> {
  static constexpr const char* allowed =
      std::is_same_v<T, std::string> ? "a list of texts" : "a list of integers";
  static std::optional<std::vector<T>> read(const Node& node) {
    if (!node.is_sequence()) return std::nullopt;
    std::vector<T> values;
    for (const Node& item : node.items) {
      auto value = Kind<T>::read(item);
      if (!value) return std::nullopt;
      values.push_back(std::move(*value));
    }
    return values;
  }
  static Node write(const std::vector<T>& values) {
    Node list = Node::sequence();
    for (const T& value : values) list.items.push_back(Kind<T>::write(value));
    return list;
  }
};

std::vector<std::string> numbered_labels(std::int64_t count) {
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back("LABEL_" + std::to_string(i));
  return labels;
}

}  // namespace

PretrainedConfig PretrainedConfig::from_json(std::string_view text, const std::string& name) {
  PretrainedConfig config;
  config.values_ = read_json(text, name, kLimits);
  config.name_ = name;
  if (!config.values_.is_map())
    throw ConfigError(name + " has " + config.values_.describe() + "; allowed is an object");
  return config;
}

PretrainedConfig PretrainedConfig::from_pretrained(const std::string& name_or_folder,
                                                   const HubOptions& options,
                                                   const std::string& filename) {
  const auto file = fetch_file(name_or_folder, filename, options);
  if (!file) {
    throw ConfigError("'" + name_or_folder + "' has no " + filename +
                      ", which says what model its weights are of");
  }
  return from_json(real_file_system().read(*file, kLimits.max_bytes), file->string());
}

const Node* PretrainedConfig::find(std::string_view key) const {
  const Node* found = values_.find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

void PretrainedConfig::refuse(std::string_view key, const std::string& allowed) const {
  const Node* found = values_.find(key);
  const std::string value = found == nullptr   ? "missing"
                            : found->is_null() ? "null"
                                               : found->describe();
  throw ConfigError(name_ + ": '" + std::string(key) + "' is " + value + "; allowed is " + allowed);
}

template <typename T>
std::optional<T> PretrainedConfig::get_if(std::string_view key) const {
  const Node* found = find(key);
  return found == nullptr ? std::nullopt : Kind<T>::read(*found);
}

template <typename T>
std::optional<T> PretrainedConfig::get(std::string_view key) const {
  auto value = get_if<T>(key);
  if (!value && find(key) != nullptr) refuse(key, Kind<T>::allowed);
  return value;
}

std::string PretrainedConfig::json_of(std::string_view key) const {
  const Node* found = find(key);
  if (found == nullptr) return "null";
  std::string text = write_json(*found);
  text.pop_back();  // The line feed.
  return text;
}

std::vector<std::string> PretrainedConfig::keys() const {
  std::vector<std::string> keys;
  for (const NodeEntry& entry : values_.entries) keys.push_back(entry.key);
  return keys;
}

std::optional<PretrainedConfig> PretrainedConfig::section(std::string_view key) const {
  const Node* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_map()) refuse(key, "an object");
  PretrainedConfig section;
  section.values_ = *found;
  section.name_ = name_ + ", " + std::string(key);
  return section;
}

template <typename T>
void PretrainedConfig::set(std::string_view key, const T& value) {
  put(key, Kind<T>::write(value));
}

template std::optional<std::int64_t> PretrainedConfig::get_if(std::string_view) const;
template std::optional<double> PretrainedConfig::get_if(std::string_view) const;
template std::optional<std::string> PretrainedConfig::get_if(std::string_view) const;
template std::optional<std::vector<std::int64_t>> PretrainedConfig::get_if(std::string_view) const;
template std::optional<std::vector<double>> PretrainedConfig::get_if(std::string_view) const;
template std::optional<bool> PretrainedConfig::get(std::string_view) const;
template std::optional<std::int64_t> PretrainedConfig::get(std::string_view) const;
template std::optional<double> PretrainedConfig::get(std::string_view) const;
template std::optional<std::string> PretrainedConfig::get(std::string_view) const;
template std::optional<std::vector<std::string>> PretrainedConfig::get(std::string_view) const;
template std::optional<std::vector<std::int64_t>> PretrainedConfig::get(std::string_view) const;
template void PretrainedConfig::set(std::string_view, const bool&);
template void PretrainedConfig::set(std::string_view, const std::int64_t&);
template void PretrainedConfig::set(std::string_view, const double&);
template void PretrainedConfig::set(std::string_view, const std::string&);
template void PretrainedConfig::set(std::string_view, const std::vector<std::string>&);

void PretrainedConfig::put(std::string_view key, Node value) {
  const auto found = std::ranges::find(values_.entries, key, &NodeEntry::key);
  if (found != values_.entries.end()) {
    found->value = std::move(value);
  } else {
    values_.entries.push_back({std::string(key), 0, std::move(value)});
  }
}

void PretrainedConfig::set_section(std::string_view key, const PretrainedConfig& object) {
  put(key, object.values_);
}

void PretrainedConfig::update(const PretrainedConfig& other) {
  for (const NodeEntry& entry : other.values_.entries) put(entry.key, entry.value);
}

void PretrainedConfig::erase(std::string_view key) {
  std::erase_if(values_.entries, [&](const NodeEntry& entry) { return entry.key == key; });
}

void PretrainedConfig::rename(std::string_view key, std::string_view to) {
  const Node* found = values_.find(key);
  if (found == nullptr) return;
  put(to, Node(*found));
  erase(key);
}

std::string PretrainedConfig::model_type() const {
  return get<std::string>("model_type", "");
}

std::vector<std::string> PretrainedConfig::architectures() const {
  return get<std::vector<std::string>>("architectures", {});
}

std::vector<std::string> PretrainedConfig::labels() const {
  const Node* named = find("id2label");
  if (named == nullptr) return numbered_labels(num_labels());
  if (!named->is_map()) refuse("id2label", "an object of numbers and names");
  if (contains("num_labels") && std::cmp_not_equal(num_labels(), named->entries.size()))
    return numbered_labels(num_labels());
  std::vector<std::optional<std::string>> labels(named->entries.size());
  for (const auto& [number, line, label] : named->entries) {
    const auto place = parse_int(number);
    const bool fits = place && *place >= 0 && static_cast<std::size_t>(*place) < labels.size();
    if (!fits || !label.is_scalar()) {
      throw ConfigError(name_ + ": 'id2label' has the number '" + number + "' for " +
                        label.describe() + "; allowed are names for 0 to " +
                        std::to_string(labels.size() - 1));
    }
    labels[static_cast<std::size_t>(*place)] = label.text;
  }
  std::vector<std::string> names;
  for (auto& label : labels) names.push_back(std::move(label).value_or(""));
  return names;
}

std::int64_t PretrainedConfig::num_labels() const {
  const bool is_counted = contains("num_labels") || find("id2label") == nullptr;
  if (contains("num_labels") && !get_if<std::int64_t>("num_labels"))
    refuse("num_labels", Kind<std::int64_t>::allowed);
  const std::int64_t count =
      is_counted ? get<std::int64_t>("num_labels", 2) : static_cast<std::int64_t>(labels().size());
  if (count >= 1 && count <= kMostLabels) return count;
  refuse(is_counted ? "num_labels" : "id2label",
         "a number of classes from 1 to " + std::to_string(kMostLabels));
}

void PretrainedConfig::set_labels(const std::vector<std::string>& labels) {
  Node names = Node::map(), numbers = Node::map();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    names.entries.push_back({std::to_string(i), 0, Node::string(labels[i])});
    numbers.entries.push_back({labels[i], 0, Node::integer(static_cast<std::int64_t>(i))});
  }
  put("id2label", std::move(names));
  put("label2id", std::move(numbers));
  erase("num_labels");
}

void PretrainedConfig::set_num_labels(std::int64_t num_labels) {
  if (num_labels < 1) {
    throw UsageError("num_labels is " + std::to_string(num_labels) + "; allowed are 1 or more");
  }
  if (find("id2label") == nullptr || this->num_labels() != num_labels)
    set_labels(numbered_labels(num_labels));
}

std::string PretrainedConfig::to_json_string() const {
  return write_json(values_);
}

void PretrainedConfig::save_pretrained(const std::filesystem::path& folder,
                                       const std::string& filename) const {
  real_file_system().create_directories(folder);
  AtomicFile file(real_file_system(), folder / filename);
  file.write(to_json_string());
  file.commit();
}

}  // namespace accelerate
