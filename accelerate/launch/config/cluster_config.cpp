#include "accelerate/launch/config/cluster_config.h"

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/document_builder.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/documents/yaml.h"
#include "accelerate/launch/config/key_table.h"

namespace accelerate {
namespace {

using detail::fail_at;
using detail::for_each_section;
using detail::Key;
using detail::KeyTable;

bool is_json(const std::string& name) {
  return name.ends_with(".json");
}

// Returns " It belongs in the section 'fsdp_config'." when `written` is a key of another section.
std::string home_of(std::string_view written, const std::string& section) {
  std::string home;
  if (!section.empty() && detail::cluster_table().find(written) != nullptr) {
    home = "at the top level";
  }
  for_each_section([&](auto, const auto& table) {
    const bool prefixed = table.prefix.empty() || written.starts_with(table.prefix);
    if (table.name != section && prefixed && table.find(written) != nullptr) {
      home = "in the section '" + table.name + "'";
    }
  });
  return home.empty() ? "" : " It belongs " + home + ".";
}

// `section`: "" at the top level; `known`: the keys that are allowed there.
[[noreturn]] void fail_unknown_key(const NodeEntry& entry, const std::string& section,
                                   std::vector<std::string> known, const std::string& file) {
  std::sort(known.begin(), known.end());
  const std::string home = home_of(entry.key, section);
  fail_at(file, entry.line,
          "unknown key '" + entry.key + "'" + (section.empty() ? "" : " in '" + section + "'") +
              "." + (home.empty() ? did_you_mean(entry.key, known) : home) +
              " Known keys: " + join(known, ", ") + ". Correct the key or remove it",
          error_name::kUnknownKey);
}

template <typename Section>
std::string bad_value(const Key<Section>& key, const Node& node) {
  return "'" + key.name + "' is " + node.describe() + "; allowed is " + key.allowed + "." +
         (node.is_scalar() ? did_you_mean(node.text, key.choices) : "");
}

template <typename Section>
void read_entry(Section& section, const NodeEntry& entry, const KeyTable<Section>& table,
                const std::string& file) {
  const Key<Section>* key = table.find(entry.key);
  if (key == nullptr) fail_unknown_key(entry, table.name, table.names(), file);
  if (entry.value.is_null()) return;
  if (!key->read(section, entry.value)) fail_at(file, entry.line, bad_value(*key, entry.value));
  if (entry.key != key->name) section.spellings[key->name] = entry.key;
}

// Refuses one key under two of its names, because chance would decide which one counts.
template <typename Section>
void refuse_twins(const Node& node, const KeyTable<Section>& table, const std::string& file) {
  std::map<const Key<Section>*, const NodeEntry*> seen;
  for (const NodeEntry& entry : node.entries) {
    const Key<Section>* key = table.find(entry.key);
    if (key == nullptr) continue;
    const auto [first, is_new] = seen.emplace(key, &entry);
    if (!is_new) {
      fail_at(file, entry.line,
              "'" + entry.key + "' and '" + first->second->key + "' (line " +
                  std::to_string(first->second->line) + ") are the same key. Remove one of them");
    }
  }
}

template <typename Section>
void read_section(Section& section, const NodeEntry& entry, const KeyTable<Section>& table,
                  const std::string& file) {
  if (entry.value.is_null()) return;
  if (!entry.value.is_map()) {
    fail_at(file, entry.line,
            "'" + table.name + "' is " + entry.value.describe() +
                "; it must hold keys of its own, such as '" + table.keys.front().name + "'");
  }
  refuse_twins(entry.value, table, file);
  for (const NodeEntry& inner : entry.value.entries) read_entry(section, inner, table, file);
}

void read_top_level(ClusterConfig& config, const NodeEntry& entry, const std::string& file) {
  bool is_section = false;
  for_each_section([&](auto member, const auto& table) {
    if (table.name != entry.key) return;
    is_section = true;
    read_section(config.*member, entry, table, file);
  });
  if (is_section) return;
  if (detail::cluster_table().find(entry.key) == nullptr) {
    std::vector<std::string> known = detail::cluster_table().names();
    for_each_section([&](auto, const auto& table) { known.push_back(table.name); });
    fail_unknown_key(entry, "", std::move(known), file);
  }
  read_entry(config, entry, detail::cluster_table(), file);
}

// Takes the entry `key` out of the map; nullopt when there is none.
std::optional<NodeEntry> take_entry(Node& root, std::string_view key) {
  const auto found = std::find_if(root.entries.begin(), root.entries.end(),
                                  [&](const NodeEntry& entry) { return entry.key == key; });
  if (found == root.entries.end()) return std::nullopt;
  NodeEntry entry = std::move(*found);
  root.entries.erase(found);
  return entry;
}

// Before 0.12: `fp16: true` instead of `mixed_precision: fp16`.
void translate_fp16(Node& root, const std::string& file) {
  const auto entry = take_entry(root, "fp16");
  if (!entry || entry->value.is_null()) return;
  const auto on = entry->value.is_scalar() ? parse_bool(entry->value.text) : std::nullopt;
  if (!on) {
    fail_at(file, entry->line,
            "'fp16' is " + entry->value.describe() +
                "; allowed is true or false. Today's key is 'mixed_precision'");
  }
  if (*on && root.find("mixed_precision") == nullptr) {
    root.entries.push_back({"mixed_precision", entry->line, Node::string("fp16")});
  }
}

// Before 0.15: `dynamo_backend` at the top level instead of a section `dynamo_config`.
void translate_dynamo_backend(Node& root, const std::string& file) {
  auto entry = take_entry(root, "dynamo_backend");
  if (!entry || entry->value.is_null()) return;
  if (entry->value.is_scalar() && lower(entry->value.text) == "no") return;
  if (root.find("dynamo_config") != nullptr) {
    fail_at(file, entry->line,
            "'dynamo_backend' stands beside the section 'dynamo_config'; move it into that "
            "section");
  }
  const int line = entry->line;
  root.entries.push_back({"dynamo_config", line, Node::map({std::move(*entry)})});
}

void check_environment(const Node& root, const std::string& file) {
  const Node* environment = root.find("compute_environment");
  if (environment == nullptr ||
      environment->text != to_string(ComputeEnvironment::AMAZON_SAGEMAKER)) {
    return;
  }
  fail_at(file, environment->line,
          "'compute_environment' is 'AMAZON_SAGEMAKER', where only Python programs "
          "can be launched; allowed here is LOCAL_MACHINE");
}

// Versions 1.3 to 1.7 of the original had a type of its own for tensor parallelism. To take another
// type instead would train in another way.
void refuse_tensor_parallelism(const Node& root, const std::string& file) {
  const Node* type = root.find("distributed_type");
  if (type == nullptr || !type->is_scalar() || lower(type->text) != "tp") return;
  fail_at(file, type->line,
          "'distributed_type' is 'TP', which older versions had for tensor parallelism. Newer ones "
          "have 'tp_size' in 'parallelism_config', for Python programs. Write MULTI_GPU to train "
          "with a whole model on each GPU, or FSDP to shard it");
}

ClusterConfig read_cluster_config(Node root, const std::string& file,
                                  std::vector<RetiredKey>& retired) {
  if (root.is_null()) fail_at(file, 0, "the file holds no keys. `accelerate config` writes one");
  if (!root.is_map()) {
    fail_at(file, root.line,
            "the file holds " + root.describe() +
                " where keys belong, such as "
                "'distributed_type: NO'");
  }
  check_environment(root, file);
  refuse_tensor_parallelism(root, file);
  retired = detail::take_retired_keys(root);
  translate_fp16(root, file);
  translate_dynamo_backend(root, file);
  ClusterConfig config;
  for (const NodeEntry& entry : root.entries) read_top_level(config, entry, file);
  if (root.find("distributed_type") == nullptr) {  // Null means NO, as for Python's launcher.
    fail_at(file, 0,
            "the key 'distributed_type' is missing; it must be one of " +
                join(enum_names<DistributedType>(), ", "));
  }
  const Node* processes = root.find("num_processes");
  const bool says_processes = processes != nullptr && !processes->is_null();
  if (config.distributed_type == DistributedType::NO && !says_processes) {
    config.num_processes = 1;
  }
  return config;
}

template <typename Section>
Node write_section(const Section& section, const KeyTable<Section>& table) {
  Node node = Node::map();
  for (const Key<Section>& key : table.keys) {
    auto value = key.write(section);
    if (!value) continue;
    const auto spelling = section.spellings.find(key.name);
    node.entries.push_back(
        {spelling == section.spellings.end() ? key.name : spelling->second, 0, std::move(*value)});
  }
  return node;
}

Node to_node(const ClusterConfig& config) {
  Node node = write_section(config, detail::cluster_table());
  for_each_section([&](auto member, const auto& table) {
    Node section = write_section(config.*member, table);
    if (!section.entries.empty()) node.entries.push_back({table.name, 0, std::move(section)});
  });
  return node;
}

}  // namespace

ClusterConfig parse_cluster_config(const std::string& text, const std::string& name,
                                   std::vector<RetiredKey>* retired) {
  Node root = is_json(name) ? read_json(text, name) : read_yaml(text, name);
  std::vector<RetiredKey> skipped;
  ClusterConfig config = read_cluster_config(std::move(root), name, skipped);
  if (retired != nullptr) *retired = std::move(skipped);
  return config;
}

std::string to_yaml(const ClusterConfig& config) {
  return write_yaml(to_node(config));
}

std::string to_json(const ClusterConfig& config) {
  return write_json(to_node(config));
}

}  // namespace accelerate
