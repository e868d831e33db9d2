#include "accelerate/launch/config/deepspeed_file.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/document_builder.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/launch/config/deepspeed_check.h"

namespace accelerate {
namespace {

using detail::is_auto_word;

constexpr std::size_t kLongestSource = 60;

// --- Where the text comes from -------------------------------------------------------------------

struct FileSource {
  std::string text;
  std::string name;
};

bool begins_as_json(std::string_view text) {
  const auto trimmed = trim(text);
  return trimmed.starts_with('{') || trimmed.starts_with('[');
}

// Returns the text that `source` is the base64 of, in the alphabet for file names too.
std::optional<std::string> decoded(std::string source) {
  std::replace(source.begin(), source.end(), '-', '+');
  std::replace(source.begin(), source.end(), '_', '/');
  try {
    auto text = detail::from_base64(trim(source));
    return begins_as_json(text) ? std::optional(std::move(text)) : std::nullopt;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

[[noreturn]] void fail_source(const std::string& source) {
  const bool is_long = source.size() > kLongestSource;
  throw ConfigError("deepspeed_config_file is '" + source.substr(0, kLongestSource) +
                    (is_long ? "…" : "") +
                    "', which is neither a file, nor JSON, nor base64 of JSON. Name DeepSpeed's "
                    "JSON file by its path; a relative path begins in the working folder.");
}

FileSource source_of(const std::string& source) {
  if (begins_as_json(source)) return {source, "the JSON of deepspeed_config_file"};
  std::error_code error;
  if (!std::filesystem::exists(source, error)) {
    if (auto text = decoded(source)) return {std::move(*text), "the JSON of deepspeed_config_file"};
    fail_source(source);
  }
  try {
    return {read_file(real_file_system(), source, DocumentLimits{}.max_bytes), source};
  } catch (const FileError&) {
    throw_with_context<ConfigError>("DeepSpeed's file '" + source + "' cannot be read");
  }
}

// --- Older names ---------------------------------------------------------------------------------

NodeEntry* entry_of(Node& map, std::string_view key) {
  for (auto& entry : map.entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

struct Renamed {
  const char* old_name;
  const char* name;
};

[[noreturn]] void fail_both(const std::string& file, const NodeEntry& old, const char* name) {
  detail::fail_at(file, old.line,
                  old.key + " is the older name of " + name +
                      ", and the file has both. Leave the older one out.");
}

// Gives `old_name` the place of its successor. `becomes` makes the successor's value.
template <typename Becomes>
void take_over(Node& map, const Renamed& names, const std::string& file, const Becomes& becomes) {
  NodeEntry* old = entry_of(map, names.old_name);
  if (old == nullptr || old->value.is_null()) return;
  if (entry_of(map, names.name) != nullptr) fail_both(file, *old, names.name);
  old->key = names.name;
  old->value = becomes(old->value);
}

Node same_value(const Node& value) {
  return value;
}

Node cpu_if(const Node& value) {
  const char* device = value.text == "true" ? "cpu" : "none";
  Node section = Node::map({{"device", value.line, Node::string(device)}});
  section.line = value.line;
  return section;
}

// An old file may say true in place of the whole section, which means stage 1.
void spell_out_zero(Node& root) {
  NodeEntry* zero = entry_of(root, "zero_optimization");
  if (zero == nullptr || !zero->value.is_scalar() || zero->value.quoted) return;
  if (zero->value.text != "true" && zero->value.text != "false") return;
  const int stage = zero->value.text == "true" ? 1 : 0;
  zero->value = Node::map({{"stage", zero->line, Node::integer(stage)}});
}

void modernise(Node& root, const std::string& file) {
  take_over(root, {"bfloat16", "bf16"}, file, same_value);
  NodeEntry* zero = entry_of(root, "zero_optimization");
  if (zero == nullptr) return;
  Node& map = zero->value;
  constexpr const char* kGather = "stage3_gather_16bit_weights_on_model_save";
  take_over(map, {"stage3_gather_fp16_weights_on_model_save", kGather}, file, same_value);
  take_over(map, {"gather_16bit_weights_on_model_save", kGather}, file, same_value);
  take_over(map, {"cpu_offload", "offload_optimizer"}, file, cpu_if);
  take_over(map, {"cpu_offload_param", "offload_param"}, file, cpu_if);
  take_over(map, {"cpu_offload_params", "offload_param"}, file, cpu_if);
}

}  // namespace

DeepSpeedFile read_deepspeed_file(const std::string& source) {
  const FileSource found = source_of(source);
  Node root = read_json(found.text, found.name);
  if (!root.is_map())
    detail::fail_at(found.name, root.line,
                    "DeepSpeed's file holds " + root.describe() + "; allowed is a map of its keys");
  spell_out_zero(root);
  auto elsewhere = detail::check_deepspeed_keys(root, found.name);
  modernise(root, found.name);
  return {std::move(root), found.name, std::move(elsewhere)};
}

const Node* DeepSpeedFile::find(std::string_view path) const {
  const Node* node = &root_;
  for (const auto& key : split(path, '.')) {
    node = node->is_map() ? node->find(key) : nullptr;
    if (node == nullptr) return nullptr;
  }
  return node;
}

const Node* DeepSpeedFile::said(std::string_view path) const {
  const Node* node = find(path);
  return node == nullptr || node->is_null() || is_auto_word(*node) ? nullptr : node;
}

bool DeepSpeedFile::is_auto(std::string_view path) const {
  const Node* node = find(path);
  return node != nullptr && is_auto_word(*node);
}

std::optional<bool> DeepSpeedFile::boolean(std::string_view path) const {
  const Node* node = said(path);
  return node == nullptr ? std::nullopt : std::optional(node->text == "true");
}

std::optional<std::int64_t> DeepSpeedFile::integer(std::string_view path) const {
  const auto value = number(path);
  return value ? std::optional(static_cast<std::int64_t>(*value)) : std::nullopt;
}

std::optional<double> DeepSpeedFile::number(std::string_view path) const {
  const Node* node = said(path);
  return node == nullptr ? std::nullopt : parse_double(node->text);
}

std::optional<std::string> DeepSpeedFile::text(std::string_view path) const {
  const Node* node = said(path);
  return node == nullptr ? std::nullopt : std::optional(node->text);
}

std::vector<std::string> DeepSpeedFile::texts(std::string_view path) const {
  std::vector<std::string> found;
  const Node* node = said(path);
  if (node == nullptr) return found;
  for (const Node& item : node->items) found.push_back(item.text);
  return found;
}

std::vector<double> DeepSpeedFile::numbers(std::string_view path) const {
  std::vector<double> found;
  for (const auto& item : texts(path)) found.push_back(parse_double(item).value_or(0));
  return found;
}

std::vector<std::string> DeepSpeedFile::keys_of(std::string_view path) const {
  std::vector<std::string> found;
  const Node* node = find(path);
  if (node == nullptr) return found;
  for (const NodeEntry& entry : node->entries) found.push_back(entry.key);
  return found;
}

std::optional<std::string> DeepSpeedFile::get_value(std::string_view path) const {
  const Node* node = find(path);
  if (node == nullptr || node->is_null()) return std::nullopt;
  return node->is_scalar() ? node->text : write_json(*node);
}

bool DeepSpeedFile::is_offload() const {
  const auto moves = [&](const char* path) {
    const std::string device = lower(text(path).value_or("none"));
    return device == "cpu" || device == "nvme";
  };
  return (is_zero2() || is_zero3()) && (moves("zero_optimization.offload_optimizer.device") ||
                                        moves("zero_optimization.offload_param.device"));
}

void DeepSpeedFile::fill_match(std::string_view path, const Node& value,
                               std::vector<std::string>& mismatches) {
  Node* node = const_cast<Node*>(find(path));  // This object's own.
  if (node == nullptr || node->is_null()) return;
  if (is_auto_word(*node)) {
    const int line = node->line;
    *node = value;
    node->line = line;
    return;
  }
  const auto number = parse_double(node->text), other = parse_double(value.text);
  const bool is_same = number && other ? *number == *other : write_json(*node) == write_json(value);
  if (!is_same)
    mismatches.push_back(std::string(path) + " is " + *get_value(path) + " (" + place_of(path) +
                         "), and the program says " + value.text);
}

std::string DeepSpeedFile::to_json() const {
  return write_json(root_);
}

std::string DeepSpeedFile::place_of(std::string_view path) const {
  const Node* node = find(path);
  if (node == nullptr || node->line == 0) return name_;
  return name_ + ", line " + std::to_string(node->line);
}

void DeepSpeedFile::warn_of_keys_without_effect() const {
  if (elsewhere_.empty()) return;
  get_logger("accelerate.deepspeed")
      .warning(name_ + ": without effect here: " + join(elsewhere_, "; ") + ".");
}

}  // namespace accelerate
