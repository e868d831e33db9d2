// Translates the ZeRO settings of `accelerate launch --use_deepspeed` into settings of the sharded
// engine. resolved_deepspeed.h adds the program's plugin and DeepSpeed's own file. Keys and variables have the names of Hugging Face Accelerate 1.15; DeepSpeed itself is
// not used.
#pragma once

#include "accelerate/launch/config/cluster_config.h"
#include "accelerate/launch/config/fsdp_plugin.h"

namespace accelerate {

/// Whether the launcher asked for DeepSpeed: ACCELERATE_USE_DEEPSPEED. Throws ConfigError when the
/// variable is not a boolean.
[[nodiscard]] bool use_deepspeed();

/// Returns the section `deepspeed_config` as the launcher handed it to this rank. A key is absent
/// when its variable is unset, "auto" or "none". `gradient_accumulation_steps` is for the training
/// loop. Throws ConfigError, which names the variable, for a value that a file could not hold
/// either.
[[nodiscard]] DeepSpeedConfig deepspeed_config_from_env();

/// The largest norm of gradients where nobody says another: the default of Accelerate and of
/// DeepSpeed 0.19.
inline constexpr double kUsualClipping = 1.0;

/// Translates a ZeRO stage into sharding. Stage 0 is NO_SHARD. Stages 1 and 2 are SHARD_GRAD_OP:
/// parameters stay whole between forward and backward; optimizer state is sharded, and so are
/// gradients from their reduction on. Stage 3 is FULL_SHARD. An absent stage means 2.
///
/// ZeRO knows no units, so the model is cut into units of a million parameters or more. With
/// `deepspeed_moe_layer_cls_names` each layer of those classes is a unit instead, and the rest of
/// the model is one. Rank 0's parameters go to all ranks at the start, as in DeepSpeed.
///
/// Warns of keys without effect: `zero3_init_flag`, a folder for a device that is not nvme, and
/// `zero3_save_16bit_model` under mixed precision. Throws ConfigError for what this version does
/// not have, for offloaded parameters without stage 3, and for nvme
/// without a folder. `gradient_clipping` is for the training loop.
[[nodiscard]] ResolvedFsdpOptions settings_of(const DeepSpeedConfig& config,
                                              MixedPrecision mixed_precision);

}  // namespace accelerate
