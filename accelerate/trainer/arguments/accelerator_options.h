// The arguments of a training as options of the Accelerator that a Trainer owns.
#pragma once

#include <cstdint>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/trainer/arguments/training_arguments.h"

namespace accelerate {

/// What resolved() arguments ask of an Accelerator. Trackers are left to the caller.
///
/// Mixed precision is what `bf16` or `fp16` says, else ACCELERATE_MIXED_PRECISION, else the key
/// `mixed_precision` of the file that `fsdp_config` names, else none. Models are sharded when
/// `fsdp` or `fsdp_config` says so, or the launcher; each setting of that is the first that speaks:
/// `fsdp`'s words and an `fsdp_config` in code, the variables FSDP_…, the file of `fsdp_config`.
/// What nobody says is as Transformers has it: units are the layers that the model names,
/// checkpoints hold whole tensors, and rank 0's parameters go to all ranks. Only fsdp_version is 1,
/// as with `accelerate launch`. Where the launcher alone asks, nothing is added to its settings.
///
/// Gradients are accumulated by the Trainer: the options say one batch a step. The Accelerator lets
/// ACCELERATE_GRADIENT_ACCUMULATION_STEPS win over that, so call
/// set_gradient_accumulation_steps(1) once it is made.
///
/// Local; opens the file of `fsdp_config`. Throws ConfigError for a file or variable that is not
/// allowed, for settings that contradict one another, and for `fsdp` under a launcher that asks
/// for DeepSpeed.
[[nodiscard]] AcceleratorOptions accelerator_options(const TrainingArguments& resolved);

/// Batches a step: the argument, else ACCELERATE_GRADIENT_ACCUMULATION_STEPS, else 1. Throws
/// ConfigError when the variable is no number of at least 1.
[[nodiscard]] std::int64_t accumulation_steps(const TrainingArguments& args);

/// Whether models are to compute layers again in backward: `gradient_checkpointing`, or
/// `activation_checkpointing` of `fsdp_config` or of the launcher where models are sharded.
/// accelerator_options() leaves that key out for the Trainer to do. Throws ConfigError as it does.
[[nodiscard]] bool recomputes_activations(const TrainingArguments& resolved);

}  // namespace accelerate
