// Translates `fsdp_config` of the arguments for the sharding plugin.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "accelerate/formats/documents/document.h"
#include "accelerate/launch/config/cluster_config.h"
#include "accelerate/launch/config/fsdp_plugin.h"

namespace accelerate::detail {

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

}  // namespace accelerate::detail
