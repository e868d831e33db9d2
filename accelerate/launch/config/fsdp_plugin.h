// What a program and its launcher say about sharded training, and the settings that follow.
//
//   FullyShardedDataParallelPlugin plugin{
//       .auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP,
//       .transformer_cls_names_to_wrap = {{"BertLayer"}}};
//   const ResolvedFsdpOptions settings = resolve(plugin, MixedPrecision::bf16);
//
// The first of these that sets a field decides it: the program; the variable FSDP_<X>, which
// `accelerate launch` sets from `fsdp_config`; upstream's default. docs/config_keys.md says what
// each key does here.
//
// Source: `FullyShardedDataParallelPlugin` of Hugging Face Accelerate 1.15. Its fields that hold
// objects of PyTorch (`state_dict_config`, `optim_state_dict_config`, `param_init_fn`) have no
// counterpart. Instead files are written shard by shard from every rank, and accelerate/tensor/construction
// fills modules of the meta device.
#pragma once

#include "accelerate/launch/config/enums.h"
#include "accelerate/launch/config/fsdp_options.h"

namespace accelerate::detail {

// Decides which strategy a plugin and the launcher's variables mean, by the names of each version.

/// Decides `sharding_strategy`, `shard_group_size` and `full_parameters` by what the program says
/// and by what its launcher says; `settings.version` must be set. Warns when the launcher gives a word that the version does not read and that asks for
/// something other than the result. Throws ConfigError as resolve() does.
void decide_strategy(const FullyShardedDataParallelPlugin& program,
                     const FullyShardedDataParallelPlugin& launcher, ResolvedFsdpOptions& settings);

/// Whether ranks share models in groups.
[[nodiscard]] bool is_hybrid(ShardingStrategy strategy);
/// Whether whole parameters are freed after a forward and gathered again in backward.
[[nodiscard]] bool reshards_after_forward(ShardingStrategy strategy);

}  // namespace accelerate::detail

namespace accelerate {

/// Whether the launcher asked for sharded training: ACCELERATE_USE_FSDP. A program asks by handing
/// a plugin to its Accelerator. Throws ConfigError when the variable is not a boolean.
[[nodiscard]] bool use_fsdp();

/// Returns what the environment says: the variables FSDP_<X> and, in a launch that shards, the
/// launcher's defaults of the variables that nobody asked for, which `accelerate launch` leaves out.
/// Throws ConfigError for a variable that is not allowed.
[[nodiscard]] FullyShardedDataParallelPlugin launched_fsdp_plugin();

/// Whether only rank 0 reads weights, as far as the environment says: the launcher shards, and
/// FSDP_CPU_RAM_EFFICIENT_LOADING is true or unset.
[[nodiscard]] bool only_rank_zero_loads();

/// Decides every field of `plugin`, reading the environment for the fields that it leaves out.
/// `mixed_precision` is the Accelerator's: fp16 and bf16 set all types of the version, fp8 counts
/// as bf16, `no` sets none. Warns of fields that the version ignores.
///
/// Throws ConfigError for a word or number out of range, for fields that contradict one another or
/// the version, and for a bad regular expression. The error says what was found, where, what is allowed and the cure.
[[nodiscard]] ResolvedFsdpOptions resolve(const FullyShardedDataParallelPlugin& plugin,
                                          MixedPrecision mixed_precision);

}  // namespace accelerate
