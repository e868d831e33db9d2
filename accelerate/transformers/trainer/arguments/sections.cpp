#include "accelerate/transformers/trainer/arguments/sections.h"

#include <algorithm>
#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/documents/yaml.h"

namespace accelerate::detail {
namespace {

std::string_view fsdp_bare(std::string_view key) {
  return fsdp_table().bare(key);
}

// Whether the key is one of Transformers' keys for TPUs, which must be off here.
bool is_fsdp_of_xla(const NodeEntry& entry, const std::string& name) {
  const auto key = fsdp_bare(entry.key);
  if (key != "xla" && !key.starts_with("xla_fsdp_")) return false;
  const Node& value = entry.value;
  const bool off = value.is_null() || (value.is_scalar() && parse_bool(value.text) == false) ||
                   (value.is_map() && value.entries.empty());
  if (!off)
    fail_at(name, entry.line,
            "'" + entry.key + "' is " + value.describe() +
                "; allowed is false: LibTorch has no TPU. Remove the key");
  return true;
}

bool is_limit_of_gathers(const NodeEntry& entry, const std::string& name) {
  if (fsdp_bare(entry.key) != "limit_all_gathers") return false;
  const bool fits =
      entry.value.is_null() || (entry.value.is_scalar() && parse_bool(entry.value.text));
  if (!fits)
    fail_at(name, entry.line,
            "'" + entry.key + "' is " + entry.value.describe() + "; allowed is true or false");
  return true;
}

bool stands_for_whole_file(const Node& root) {
  return root.find("distributed_type") != nullptr || root.find("compute_environment") != nullptr;
}

FsdpFile fsdp_of_cluster_config(const std::filesystem::path& file) {
  const ClusterConfig config = load_cluster_config(file);
  if (config.distributed_type == DistributedType::FSDP ||
      config.fsdp_config != FullyShardedDataParallelPlugin{}) {
    return {config.fsdp_config, config.mixed_precision};
  }
  throw ConfigError("the file of fsdp_config, '" + file.string() + "', has distributed_type '" +
                    std::string(to_string(config.distributed_type)) +
                    "' and no section fsdp_config; allowed is a file that asks for FSDP. Leave "
                    "fsdp_config out, and launch with --config_file instead.");
}

// Reads a section that may have mixed_precision beside it, but none of the other keys of a whole
// file.
FsdpFile fsdp_of_section(const Node& root, const std::string& name) {
  FsdpFile result;
  for (const NodeEntry& entry : root.entries) {
    if (entry.key == "fsdp_config") {
      result.plugin = fsdp_plugin_of(entry.value, name);
    } else if (entry.key == "mixed_precision") {
      ClusterConfig top;
      read_keys(top, Node::map({entry}), cluster_table(), name);
      result.mixed_precision = top.mixed_precision;
    } else {
      fail_at(name, entry.line,
              "'" + entry.key +
                  "' stands beside 'fsdp_config'; allowed is 'mixed_precision', or "
                  "all keys of a file of `accelerate config`, with 'distributed_type' among them");
    }
  }
  return result;
}

}  // namespace

Node read_settings_file(const std::filesystem::path& file, const std::string& what) {
  std::string text;
  try {
    text = read_file(real_file_system(), file, DocumentLimits{}.max_bytes);
  } catch (const FileError&) {
    throw_with_context<ConfigError>(what + ", '" + file.string() + "', cannot be read");
  }
  const std::string name = file.string();
  return file.extension() == ".json" ? read_json(text, name) : read_yaml(text, name);
}

FullyShardedDataParallelPlugin fsdp_plugin_of(Node map, const std::string& name) {
  std::erase_if(map.entries, [&](const NodeEntry& entry) {
    return is_fsdp_of_xla(entry, name) || is_limit_of_gathers(entry, name);
  });
  for (NodeEntry& entry : map.entries) {
    if (fsdp_bare(entry.key) == "cpu_offload") entry.key = "offload_params";
  }
  FullyShardedDataParallelPlugin plugin;
  read_keys(plugin, map, fsdp_table(), name);
  return plugin;
}

FsdpFile read_fsdp_file(const std::filesystem::path& file) {
  const Node root = read_settings_file(file, "the file of fsdp_config");
  const std::string name = file.string();
  if (!root.is_map())
    fail_at(name, root.line,
            "the file of fsdp_config holds " + root.describe() +
                "; allowed are keys such as 'fsdp_sharding_strategy: FULL_SHARD', or a whole file "
                "of `accelerate config`");
  if (stands_for_whole_file(root)) return fsdp_of_cluster_config(file);
  if (root.find("fsdp_config") != nullptr) return fsdp_of_section(root, name);
  return {fsdp_plugin_of(root, name), std::nullopt};
}

}  // namespace accelerate::detail
