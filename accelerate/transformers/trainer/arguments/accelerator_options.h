// Turns the arguments of a training into options of the Accelerator that a Trainer owns.
#pragma once

#include <cstdint>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/transformers/trainer/arguments/training_arguments.h"

namespace accelerate {

/// Returns the options that `args` ask for. Trackers are left to the caller.
///
/// Mixed precision is what `bf16` or `fp16` says, else ACCELERATE_MIXED_PRECISION, else the key
/// `mixed_precision` of the file that `fsdp_config` names, else none.
///
/// Models are sharded when `fsdp`, `fsdp_config` or the launcher asks for it. Each sharding setting
/// comes from the first source that gives it: the words of `fsdp` and an `fsdp_config` in code,
/// then the variables FSDP_…, then the file of `fsdp_config`. Settings that no source gives are as
/// in Transformers: units are the layers that the model names, checkpoints hold whole tensors, and
/// rank 0's parameters go to all ranks. Only fsdp_version is 1, as with `accelerate launch`. Where
/// the launcher alone asks for sharding, nothing is added to its settings.
///
/// The Trainer accumulates gradients itself, so the options say one batch a step. In an Accelerator
/// ACCELERATE_GRADIENT_ACCUMULATION_STEPS overrides that, so call
/// set_gradient_accumulation_steps(1) once it is made.
///
/// Local; opens the file of `fsdp_config`. Throws ConfigError for a file or variable that is not
/// allowed, for settings that contradict one another, and for `fsdp` under a launcher that asks for
/// DeepSpeed.
[[nodiscard]] AcceleratorOptions accelerator_options(const ResolvedArguments& args);

/// The number of batches in a step: the argument, else ACCELERATE_GRADIENT_ACCUMULATION_STEPS, else
/// 1. Throws ConfigError when the variable is not a number of at least 1.
[[nodiscard]] std::int64_t accumulation_steps(const TrainingArguments& args);

/// The largest norm of gradients: `max_grad_norm`, or where that is its default the
/// `gradient_clipping` of the launcher's deepspeed_config. Says which counts where both were said.
[[nodiscard]] double gradient_norm_limit(const TrainingArguments& args);

}  // namespace accelerate
