#include "accelerate/launch/config/fsdp_strategy.h"

#include "accelerate/base/logger.h"
#include "accelerate/launch/config/fsdp_readers.h"

namespace accelerate::detail {
namespace {

using Plugin = FullyShardedDataParallelPlugin;

constexpr std::size_t kNumberedStrategies = 5;  // All of them, with PyTorch's numbers.

void warn(const std::string& text) {
  get_logger("accelerate.fsdp").warning(text);
}

// Returns the strategy in FSDP_RESHARD_AFTER_FORWARD for version 1. nullopt for version 2's
// boolean, which the launcher always sets, by default to true.
std::optional<ShardingStrategy> renamed_strategy_in_env() {
  const auto text = env("FSDP_RESHARD_AFTER_FORWARD");
  const auto word = text ? parse_enum<ShardingStrategy>(*text) : std::nullopt;
  if (!text || word || parse_bool(*text)) return word;
  throw ConfigError("FSDP_RESHARD_AFTER_FORWARD is '" + *text +
                    "'; allowed are, with fsdp_version 1, the sharding strategies " +
                    join(enum_names<ShardingStrategy>(), ", ") +
                    ", and with fsdp_version 2 true and false." +
                    did_you_mean(*text, enum_names<ShardingStrategy>()));
}

// Returns the strategy that was given as reshard_after_forward, as configuration files of version 1
// do.
std::optional<ShardingStrategy> renamed_strategy(const Plugin& plugin) {
  if (plugin.reshard_after_forward) {
    if (const auto* strategy = std::get_if<ShardingStrategy>(&*plugin.reshard_after_forward)) {
      return *strategy;
    }
    throw ConfigError(
        "reshard_after_forward is a boolean with fsdp_version 1; allowed are the sharding "
        "strategies " +
        join(enum_names<ShardingStrategy>(), ", ") + ". Set fsdp_version to 2 to use a boolean.");
  }
  return plugin.sharding_strategy ? std::nullopt : renamed_strategy_in_env();
}

// Warns of a false in version 1. It asks for ZeRO 2, but version 1 ignores it, in PyTorch too.
void warn_of_unheard_false(const Plugin& plugin, ShardingStrategy strategy) {
  const bool program = plugin.sharding_strategy || plugin.reshard_after_forward;
  const auto text = env("FSDP_RESHARD_AFTER_FORWARD");
  if (program || !reshards_after_forward(strategy) || !text || parse_bool(*text) != false) return;
  warn(
      "fsdp_reshard_after_forward is false, which fsdp_version 1 does not read: parameters are "
      "freed after forward (" +
      std::string(to_string(strategy)) +
      "). To keep them set fsdp_sharding_strategy to SHARD_GRAD_OP (in groups "
      "HYBRID_SHARD_ZERO2), or fsdp_version to 2.");
}

// The launcher always sets FSDP_SHARDING_STRATEGY, by default to FULL_SHARD. So FULL_SHARD from the
// launcher does not contradict the other key; any other word does.
ShardingStrategy strategy_of_version_1(const Plugin& plugin) {
  const bool from_env = !plugin.sharding_strategy && !plugin.reshard_after_forward;
  const auto renamed = renamed_strategy(plugin);
  std::optional<ShardingStrategy> named = plugin.sharding_strategy;
  if (from_env) {
    named = word_or_env<ShardingStrategy>(std::nullopt, "FSDP_SHARDING_STRATEGY",
                                          ShardingStrategy::FULL_SHARD, kNumberedStrategies);
  }
  if (!renamed) return named.value_or(ShardingStrategy::FULL_SHARD);
  const bool open = !named || (from_env && *named == ShardingStrategy::FULL_SHARD);
  if (open || *named == *renamed) return *renamed;
  throw ConfigError("sharding_strategy is " + std::string(to_string(*named)) +
                    " and reshard_after_forward is " + std::string(to_string(*renamed)) +
                    ", which in version 1 are two names of the same setting; set one of them");
}

bool reshards(const Plugin& plugin) {
  if (plugin.reshard_after_forward) {
    if (const bool* said = std::get_if<bool>(&*plugin.reshard_after_forward)) return *said;
    throw ConfigError(
        "reshard_after_forward is a sharding strategy with fsdp_version 2; allowed are true "
        "(FULL_SHARD) and false (SHARD_GRAD_OP)");
  }
  if (!plugin.sharding_strategy) return env_flag("FSDP_RESHARD_AFTER_FORWARD", true);
  throw ConfigError("sharding_strategy is " + std::string(to_string(*plugin.sharding_strategy)) +
                    " with fsdp_version 2, which does not read it; set reshard_after_forward to "
                    "true (FULL_SHARD) or false (SHARD_GRAD_OP), or fsdp_version to 1");
}

ShardingStrategy strategy_of_version_2(const Plugin& plugin, bool hybrid) {
  const bool reshard = reshards(plugin);
  if (plugin.sharding_strategy) {
    warn("sharding_strategy has no effect with fsdp_version 2: reshard_after_forward decides.");
  }
  if (hybrid) {
    return reshard ? ShardingStrategy::HYBRID_SHARD : ShardingStrategy::HYBRID_SHARD_ZERO2;
  }
  return reshard ? ShardingStrategy::FULL_SHARD : ShardingStrategy::SHARD_GRAD_OP;
}

// Warns of a strategy that version 2 ignores. FULL_SHARD says nothing: it is the launcher's
// default.
void warn_of_unheard_strategy(const Plugin& plugin, ShardingStrategy strategy) {
  const auto text = env("FSDP_SHARDING_STRATEGY");
  if (plugin.sharding_strategy || plugin.reshard_after_forward || !text) return;
  const auto word = find_word<ShardingStrategy>(*text, kNumberedStrategies);
  if (word == ShardingStrategy::FULL_SHARD || word == strategy) return;
  warn("fsdp_sharding_strategy is " + *text + ", which fsdp_version 2 does not read: it trains " +
       std::string(to_string(strategy)) +
       ". fsdp_reshard_after_forward true is FULL_SHARD there and false SHARD_GRAD_OP, and "
       "ACCELERATE_FSDP_SHARD_GROUP_SIZE makes groups; other strategies need fsdp_version 1.");
}

}  // namespace

bool is_hybrid(ShardingStrategy strategy) {
  return strategy == ShardingStrategy::HYBRID_SHARD ||
         strategy == ShardingStrategy::HYBRID_SHARD_ZERO2;
}

bool reshards_after_forward(ShardingStrategy strategy) {
  return strategy == ShardingStrategy::FULL_SHARD || strategy == ShardingStrategy::HYBRID_SHARD;
}

void decide_strategy(const Plugin& plugin, FsdpSettings& settings) {
  settings.shard_group_size = number_or_env(plugin.shard_group_size, "shard_group_size",
                                            "ACCELERATE_FSDP_SHARD_GROUP_SIZE", 0, 0);
  settings.sharding_strategy = settings.version == 1
                                   ? strategy_of_version_1(plugin)
                                   : strategy_of_version_2(plugin, settings.shard_group_size > 0);
  if (settings.version == 1) {
    warn_of_unheard_false(plugin, settings.sharding_strategy);
  } else {
    warn_of_unheard_strategy(plugin, settings.sharding_strategy);
  }
  if (settings.shard_group_size > 0 && !is_hybrid(settings.sharding_strategy)) {
    throw ConfigError("shard_group_size is " + std::to_string(settings.shard_group_size) +
                      " with sharding_strategy " +
                      std::string(to_string(settings.sharding_strategy)) +
                      "; only HYBRID_SHARD and HYBRID_SHARD_ZERO2 have groups. Choose one of them, "
                      "or leave shard_group_size out.");
  }
  settings.full_parameters = word_or_env(plugin.full_parameters, "ACCELERATE_FSDP_FULL_PARAMETERS",
                                         FullParametersHome::automatic);
}

}  // namespace accelerate::detail
