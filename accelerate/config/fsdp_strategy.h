// Which strategy a plugin and the launcher's variables mean, under the names of either version.
#pragma once

#include "accelerate/config/fsdp_plugin.h"

namespace accelerate::detail {

/// Decides `sharding_strategy`, `shard_group_size` and `full_parameters`; `settings.version` is
/// decided. Warns of words of the launcher that the version does not read and that ask for
/// something else than what comes out. Throws ConfigError as resolve() does.
void decide_strategy(const FullyShardedDataParallelPlugin& plugin, FsdpSettings& settings);

/// Ranks share models in groups.
[[nodiscard]] bool is_hybrid(ShardingStrategy strategy);
/// Whole parameters go after a forward, and come again in backward.
[[nodiscard]] bool reshards_after_forward(ShardingStrategy strategy);

}  // namespace accelerate::detail
