#include "accelerate/transformers/trainer/arguments/fsdp_section.h"

#include <algorithm>
#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/documents/yaml.h"
#include "accelerate/transformers/trainer/arguments/sections.h"

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
  if (!off) {
    fail_at(name, entry.line,
            "'" + entry.key + "' is " + value.describe() +
                "; allowed is false: LibTorch has no TPU. Remove the key");
  }
  return true;
}

bool is_limit_of_gathers(const NodeEntry& entry, const std::string& name) {
  if (fsdp_bare(entry.key) != "limit_all_gathers") return false;
  const bool fits =
      entry.value.is_null() || (entry.value.is_scalar() && parse_bool(entry.value.text));
  if (!fits) {
    fail_at(name, entry.line,
            "'" + entry.key + "' is " + entry.value.describe() + "; allowed is true or false");
  }
  return true;
}

// Turns a list of names of classes, or of modules, into one text.
void join_fsdp_list(Node& value) {
  if (!value.is_sequence()) return;
  const auto texts = KeyValue<std::vector<std::string>>::read(value, {});
  if (texts) value = Node::string(join(*texts, ","));
}

bool stands_for_whole_file(const Node& root) {
  return root.find("distributed_type") != nullptr || root.find("compute_environment") != nullptr;
}

FsdpFile fsdp_of_cluster_config(const std::filesystem::path& file) {
  const ClusterConfig config = load_cluster_config(file);
  if (config.distributed_type == DistributedType::FSDP || config.fsdp_config != FsdpConfig{}) {
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
      result.config = fsdp_config_of(entry.value, name);
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

std::optional<BoolOrWord> fsdp_reshard_of(const FullyShardedDataParallelPlugin& plugin) {
  if (!plugin.reshard_after_forward) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&*plugin.reshard_after_forward)) return *flag;
  return std::string(to_string(std::get<ShardingStrategy>(*plugin.reshard_after_forward)));
}

std::optional<std::variant<bool, ShardingStrategy>> fsdp_reshard_of(const FsdpConfig& config) {
  if (!config.reshard_after_forward) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&*config.reshard_after_forward)) return *flag;
  const auto& word = std::get<std::string>(*config.reshard_after_forward);
  if (const auto strategy = parse_enum<ShardingStrategy>(word)) return *strategy;
  throw ConfigError("reshard_after_forward is '" + word + "'; allowed is true, false or one of " +
                    join(enum_names<ShardingStrategy>(), ", ") + "." +
                    did_you_mean(word, enum_names<ShardingStrategy>()));
}

std::vector<std::string> fsdp_class_names(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& part : split(text, ',')) {
    if (const auto name = trim(part); !name.empty()) names.emplace_back(name);
  }
  return names;
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

FsdpConfig fsdp_config_of(Node map, const std::string& name) {
  std::erase_if(map.entries, [&](const NodeEntry& entry) {
    return is_fsdp_of_xla(entry, name) || is_limit_of_gathers(entry, name);
  });
  for (NodeEntry& entry : map.entries) {
    const auto key = fsdp_bare(entry.key);
    if (key == "transformer_layer_cls_to_wrap") join_fsdp_list(entry.value);
    if (key == "cpu_offload") entry.key = "offload_params";
  }
  FsdpConfig config;
  read_keys(config, map, fsdp_table(), name);
  return config;
}

FsdpFile read_fsdp_file(const std::filesystem::path& file) {
  const Node root = read_settings_file(file, "the file of fsdp_config");
  const std::string name = file.string();
  if (!root.is_map()) {
    fail_at(name, root.line,
            "the file of fsdp_config holds " + root.describe() +
                "; allowed are keys such as 'fsdp_sharding_strategy: FULL_SHARD', or a whole file "
                "of `accelerate config`");
  }
  if (stands_for_whole_file(root)) return fsdp_of_cluster_config(file);
  if (root.find("fsdp_config") != nullptr) return fsdp_of_section(root, name);
  return {fsdp_config_of(root, name), std::nullopt};
}

FsdpConfig fsdp_config_of(const FullyShardedDataParallelPlugin& plugin) {
  FsdpConfig config{.version = plugin.fsdp_version,
                    .sharding_strategy = plugin.sharding_strategy,
                    .reshard_after_forward = fsdp_reshard_of(plugin),
                    .offload_params = plugin.cpu_offload,
                    .auto_wrap_policy = plugin.auto_wrap_policy,
                    .min_num_params = plugin.min_num_params,
                    .backward_prefetch = plugin.backward_prefetch,
                    .state_dict_type = plugin.state_dict_type,
                    .forward_prefetch = plugin.forward_prefetch,
                    .use_orig_params = plugin.use_orig_params,
                    .cpu_ram_efficient_loading = plugin.cpu_ram_efficient_loading,
                    .sync_module_states = plugin.sync_module_states,
                    .activation_checkpointing = plugin.activation_checkpointing,
                    .activation_checkpointing_offload = plugin.activation_checkpointing_offload};
  if (const auto& names = plugin.transformer_cls_names_to_wrap) {
    config.transformer_layer_cls_to_wrap = join(*names, ",");
  }
  if (const auto& ignored = plugin.ignored_modules) config.ignored_modules = join(*ignored, "|");
  return config;
}

FullyShardedDataParallelPlugin plugin_of(const FsdpConfig& config) {
  FullyShardedDataParallelPlugin plugin{
      .fsdp_version = config.version,
      .sharding_strategy = config.sharding_strategy,
      .reshard_after_forward = fsdp_reshard_of(config),
      .backward_prefetch = config.backward_prefetch,
      .auto_wrap_policy = config.auto_wrap_policy,
      .cpu_offload = config.offload_params,
      .state_dict_type = config.state_dict_type,
      .use_orig_params = config.use_orig_params,
      .sync_module_states = config.sync_module_states,
      .forward_prefetch = config.forward_prefetch,
      .activation_checkpointing = config.activation_checkpointing,
      .activation_checkpointing_offload = config.activation_checkpointing_offload,
      .cpu_ram_efficient_loading = config.cpu_ram_efficient_loading,
      .min_num_params = config.min_num_params};
  if (const auto& names = config.transformer_layer_cls_to_wrap) {
    plugin.transformer_cls_names_to_wrap = fsdp_class_names(*names);
  }
  if (config.ignored_modules) plugin.ignored_modules = {*config.ignored_modules};
  return plugin;
}

}  // namespace accelerate::detail
