// ZeRO as `accelerate launch --use_deepspeed` asks for it, in the terms of the sharded engine. Keys
// and variables are those of Hugging Face Accelerate 1.15; DeepSpeed itself is not used.
#pragma once

#include "accelerate/config/cluster_config.h"
#include "accelerate/config/fsdp_plugin.h"

namespace accelerate {

/// Whether the launcher asked for DeepSpeed: ACCELERATE_USE_DEEPSPEED. Throws ConfigError when the
/// variable is no boolean.
[[nodiscard]] bool use_deepspeed();

/// The section `deepspeed_config` as the launcher handed it to this rank. What was not said, or is
/// "auto" or "none", is absent. `gradient_accumulation_steps` is for the training loop.
/// Throws ConfigError, which names the variable, for a value that a file could not hold either.
[[nodiscard]] DeepSpeedConfig deepspeed_config_from_env();

/// The sharding that a ZeRO stage is: 0 NO_SHARD; 1 and 2 SHARD_GRAD_OP, where parameters stay
/// whole between forward and backward while optimizer state, and gradients from their reduction on,
/// are sharded; 3 FULL_SHARD; 2 when absent. ZeRO knows no units, so units of a million parameters
/// or more are cut by size; with `deepspeed_moe_layer_cls_names` each layer of those classes is a
/// unit, and the rest of the model one. Rank 0's parameters go to all ranks at the start, as
/// DeepSpeed's do.
/// Warns of what has no effect: `zero3_init_flag`, and `zero3_save_16bit_model` under mixed
/// precision. Throws ConfigError for what this version does not have: DeepSpeed's own JSON file,
/// clipping by `gradient_clipping` (0 is none), and offload to disk; and for offloaded parameters
/// without stage 3.
[[nodiscard]] FsdpSettings settings_of(const DeepSpeedConfig& config,
                                       MixedPrecision mixed_precision);

}  // namespace accelerate
