#include "accelerate/launch/config/fsdp_plugin.h"

#include <limits>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

using Plugin = FullyShardedDataParallelPlugin;

void warn(const std::string& text) {
  get_logger("accelerate.fsdp").warning(text);
}

bool says_strategy(const Plugin& plugin) {
  return plugin.sharding_strategy || plugin.reshard_after_forward;
}

// Returns the strategy that was given as reshard_after_forward, as configuration files of version 1
// do. nullopt for version 2's boolean, which the launcher always sets, by default to true.
std::optional<ShardingStrategy> renamed_strategy(const Plugin& plugin) {
  if (!plugin.reshard_after_forward) return std::nullopt;
  const auto* strategy = std::get_if<ShardingStrategy>(&*plugin.reshard_after_forward);
  return strategy != nullptr ? std::optional(*strategy) : std::nullopt;
}

std::optional<bool> reshard_flag(const Plugin& plugin) {
  if (!plugin.reshard_after_forward) return std::nullopt;
  const bool* flag = std::get_if<bool>(&*plugin.reshard_after_forward);
  return flag != nullptr ? std::optional(*flag) : std::nullopt;
}

// Warns of a false in version 1. It asks for ZeRO 2, but version 1 ignores it, in PyTorch too.
void warn_of_unheard_false(const Plugin& launcher, ShardingStrategy strategy) {
  if (!reshards_after_forward(strategy) || reshard_flag(launcher) != false) return;
  warn(
      "fsdp_reshard_after_forward is false, which fsdp_version 1 does not read: parameters are "
      "freed after forward (" +
      std::string(to_string(strategy)) +
      "). To keep them set fsdp_sharding_strategy to SHARD_GRAD_OP (in groups "
      "HYBRID_SHARD_ZERO2), or fsdp_version to 2.");
}

// The launcher always sets FSDP_SHARDING_STRATEGY, by default to FULL_SHARD. So FULL_SHARD from the
// launcher does not contradict the other key; any other word does.
ShardingStrategy strategy_of_version_1(const Plugin& program, const Plugin& launcher) {
  if (reshard_flag(program)) {
    throw ConfigError(
        "reshard_after_forward is a boolean with fsdp_version 1; allowed are the sharding "
        "strategies " +
        join(enum_names<ShardingStrategy>(), ", ") + ". Set fsdp_version to 2 to use a boolean.");
  }
  const bool from_env = !says_strategy(program);
  const Plugin& said = from_env ? launcher : program;
  const auto renamed = renamed_strategy(said);
  const auto& named = said.sharding_strategy;
  if (!renamed) return named.value_or(ShardingStrategy::FULL_SHARD);
  const bool open = !named || (from_env && *named == ShardingStrategy::FULL_SHARD);
  if (open || *named == *renamed) return *renamed;
  throw ConfigError("sharding_strategy is " + std::string(to_string(*named)) +
                    " and reshard_after_forward is " + std::string(to_string(*renamed)) +
                    ", which in version 1 are two names of the same setting; set one of them");
}

bool reshards(const Plugin& program, const Plugin& launcher) {
  const auto renamed = renamed_strategy(program.reshard_after_forward ? program : launcher);
  if (renamed) {
    throw ConfigError(std::string(program.reshard_after_forward ? "reshard_after_forward"
                                                                : "FSDP_RESHARD_AFTER_FORWARD") +
                      " is '" + std::string(to_string(*renamed)) +
                      "' with fsdp_version 2; allowed are true (FULL_SHARD) and false "
                      "(SHARD_GRAD_OP)");
  }
  if (program.reshard_after_forward) return *reshard_flag(program);
  if (!program.sharding_strategy) return reshard_flag(launcher).value_or(true);
  throw ConfigError("sharding_strategy is " + std::string(to_string(*program.sharding_strategy)) +
                    " with fsdp_version 2, which does not read it; set reshard_after_forward to "
                    "true (FULL_SHARD) or false (SHARD_GRAD_OP), or fsdp_version to 1");
}

ShardingStrategy strategy_of_version_2(const Plugin& program, const Plugin& launcher, bool hybrid) {
  const bool reshard = reshards(program, launcher);
  if (program.sharding_strategy) {
    warn("sharding_strategy has no effect with fsdp_version 2: reshard_after_forward decides.");
  }
  if (hybrid) {
    return reshard ? ShardingStrategy::HYBRID_SHARD : ShardingStrategy::HYBRID_SHARD_ZERO2;
  }
  return reshard ? ShardingStrategy::FULL_SHARD : ShardingStrategy::SHARD_GRAD_OP;
}

// Warns of a strategy that version 2 ignores. FULL_SHARD says nothing: it is the launcher's
// default.
void warn_of_unheard_strategy(const Plugin& launcher, ShardingStrategy strategy) {
  const ShardingStrategy said = launcher.sharding_strategy.value_or(strategy);
  if (said == ShardingStrategy::FULL_SHARD || said == strategy) return;
  warn("fsdp_sharding_strategy is " + std::string(to_string(said)) +
       ", which fsdp_version 2 does not read: it trains " + std::string(to_string(strategy)) +
       ". fsdp_reshard_after_forward true is FULL_SHARD there and false SHARD_GRAD_OP, and "
       "ACCELERATE_FSDP_SHARD_GROUP_SIZE makes groups; other strategies need fsdp_version 1.");
}

int group_size(const Plugin& program) {
  constexpr const char* kVariable = "ACCELERATE_FSDP_SHARD_GROUP_SIZE";
  const std::int64_t size =
      program.shard_group_size ? *program.shard_group_size : env_int(kVariable).value_or(0);
  constexpr int kMost = std::numeric_limits<int>::max();
  if (size >= 0 && size <= kMost) return static_cast<int>(size);
  throw ConfigError(std::string(program.shard_group_size ? "shard_group_size" : kVariable) +
                    " is " + std::to_string(size) + "; allowed are 0 to " + std::to_string(kMost));
}

FullParametersHome home_of_parameters(const Plugin& program) {
  constexpr const char* kVariable = "ACCELERATE_FSDP_FULL_PARAMETERS";
  if (program.full_parameters) return *program.full_parameters;
  const auto word = env(kVariable);
  if (!word) return FullParametersHome::automatic;
  if (const auto home = parse_enum<FullParametersHome>(*word)) return *home;
  const auto words = enum_names<FullParametersHome>();
  throw ConfigError(std::string(kVariable) + " is '" + *word + "'; allowed are " +
                    join(words, ", ") + "." + did_you_mean(*word, words));
}

}  // namespace

bool is_hybrid(ShardingStrategy strategy) {
  return strategy == ShardingStrategy::HYBRID_SHARD ||
         strategy == ShardingStrategy::HYBRID_SHARD_ZERO2;
}

bool reshards_after_forward(ShardingStrategy strategy) {
  return strategy == ShardingStrategy::FULL_SHARD || strategy == ShardingStrategy::HYBRID_SHARD;
}

void decide_strategy(const Plugin& program, const Plugin& launcher, ResolvedFsdpOptions& settings) {
  settings.shard_group_size = group_size(program);
  settings.sharding_strategy =
      settings.version == 1
          ? strategy_of_version_1(program, launcher)
          : strategy_of_version_2(program, launcher, settings.shard_group_size > 0);
  if (!says_strategy(program) && settings.version == 1) {
    warn_of_unheard_false(launcher, settings.sharding_strategy);
  } else if (!says_strategy(program)) {
    warn_of_unheard_strategy(launcher, settings.sharding_strategy);
  }
  if (settings.shard_group_size > 0 && !is_hybrid(settings.sharding_strategy)) {
    throw ConfigError("shard_group_size is " + std::to_string(settings.shard_group_size) +
                      " with sharding_strategy " +
                      std::string(to_string(settings.sharding_strategy)) +
                      "; only HYBRID_SHARD and HYBRID_SHARD_ZERO2 have groups. Choose one of them, "
                      "or leave shard_group_size out.");
  }
  settings.full_parameters = home_of_parameters(program);
}

}  // namespace accelerate::detail
