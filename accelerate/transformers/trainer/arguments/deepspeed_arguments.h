// What DeepSpeed's file and the arguments of a training say of the same things. Source:
// integrations/deepspeed.py of Transformers 5.23.
#pragma once

#include <cstdint>
#include <optional>

#include "accelerate/launch/config/deepspeed_file.h"
#include "accelerate/transformers/trainer/arguments/training_arguments.h"

namespace accelerate::detail {

/// Returns the file that `deepspeed` names, else the launcher's; nullopt if neither names one.
/// Throws ConfigError as read_deepspeed_file().
[[nodiscard]] std::optional<DeepSpeedFile> deepspeed_file_of(const TrainingArguments& args);

/// Throws ConfigError, which lists them, for values of the file that differ from the arguments.
/// "auto" never differs. Neither do gradient_accumulation_steps, max_grad_norm, bf16 and fp16 that
/// are not set. `args`: as the user gave them. `ranks`: of the training.
void require_match(const DeepSpeedFile& file, const TrainingArguments& args, int ranks);

/// Does the same for what follows from the number of steps.
void require_match_of_steps(const DeepSpeedFile& file, std::int64_t max_steps,
                            std::int64_t warmup_steps);

}  // namespace accelerate::detail
