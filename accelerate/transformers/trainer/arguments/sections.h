// Reads and writes maps inside arguments, such as lr_scheduler_kwargs and fsdp_config, by a table of
// their keys.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "accelerate/formats/documents/document_builder.h"
#include "accelerate/launch/config/cluster_config.h"
#include "accelerate/launch/config/fsdp_plugin.h"
#include "accelerate/launch/config/key_table.h"

namespace accelerate::detail {

/// Returns "'key' is 'x'; allowed is a number.", with the nearest allowed word.
template <typename Section>
[[nodiscard]] std::string refused_value(const Key<Section>& key, const Node& node) {
  return "'" + key.name + "' is " + node.describe() + "; allowed is " + key.allowed + "." +
         (node.is_scalar() ? did_you_mean(node.text, key.choices) : "");
}

/// Sets the fields of `section` whose keys `map` holds; null leaves a field as it is. `name` stands
/// for the map in messages. Throws ConfigError when `map` is not a map, and for a key or value that
/// is not allowed.
template <typename Section>
void read_keys(Section& section, const Node& map, const KeyTable<Section>& table,
               const std::string& name) {
  if (!map.is_map())
    fail_at(name, map.line, "it is " + map.describe() + "; allowed is a map of keys");
  for (const NodeEntry& entry : map.entries) {
    const Key<Section>* key = table.find(entry.key);
    if (key == nullptr)
      fail_at(name, entry.line,
              "unknown key '" + entry.key + "'." + did_you_mean(entry.key, table.names()) +
                  " Known keys: " + join(table.names(), ", ") + ". Correct the key or remove it");
    if (entry.value.is_null()) continue;
    if (!key->read(section, entry.value))
      fail_at(name, entry.line, refused_value(*key, entry.value));
  }
}

/// Returns the fields of `section` that are set, under their keys without the table's prefix.
template <typename Section>
[[nodiscard]] Node write_keys(const Section& section, const KeyTable<Section>& table) {
  Node map = Node::map();
  for (const Key<Section>& key : table.keys) {
    auto value = key.write(section);
    if (value) map.entries.push_back({std::string(table.bare(key.name)), 0, std::move(*value)});
  }
  return map;
}

/// The settings in a file that `fsdp_config` names.
struct FsdpFile {
  FullyShardedDataParallelPlugin plugin{};
  std::optional<MixedPrecision> mixed_precision{};
};

/// Reads a file of `accelerate config`, or a file with the keys of its section fsdp_config. These
/// keys may stand alone or below `fsdp_config`, with or without their prefix. Throws ConfigError.
[[nodiscard]] FsdpFile read_fsdp_file(const std::filesystem::path& file);

/// Reads the keys of `map`: Accelerate's keys, and keys that only Transformers has. `cpu_offload`
/// is read as `offload_params`, class names may be a list, `limit_all_gathers` has no effect, and
/// `xla…` must be off. `name` stands for the map in messages. Throws ConfigError.
[[nodiscard]] FullyShardedDataParallelPlugin fsdp_plugin_of(Node map, const std::string& name);

/// Reads a file: JSON if its name ends in .json, else YAML. `what`, such as "the file of
/// fsdp_config", stands for the file in messages until it is open. Throws ConfigError.
[[nodiscard]] Node read_settings_file(const std::filesystem::path& file, const std::string& what);

}  // namespace accelerate::detail
