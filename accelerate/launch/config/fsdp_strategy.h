// Decides which strategy a plugin and the launcher's variables mean, by the names of each version.
#pragma once

#include "accelerate/launch/config/enums.h"
#include "accelerate/launch/config/fsdp_settings.h"

namespace accelerate::detail {

/// Decides `sharding_strategy`, `shard_group_size` and `full_parameters` by what the program says
/// and by what its launcher says; `settings.version` must be set. Warns when the launcher gives a word that the version does not read and that asks for
/// something other than the result. Throws ConfigError as resolve() does.
void decide_strategy(const FullyShardedDataParallelPlugin& program,
                     const FullyShardedDataParallelPlugin& launcher, FsdpSettings& settings);

/// Whether ranks share models in groups.
[[nodiscard]] bool is_hybrid(ShardingStrategy strategy);
/// Whether whole parameters are freed after a forward and gathered again in backward.
[[nodiscard]] bool reshards_after_forward(ShardingStrategy strategy);

}  // namespace accelerate::detail
