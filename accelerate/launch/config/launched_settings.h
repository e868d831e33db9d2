// What the launcher's variables say of settings that both a loop and a Trainer have.
#pragma once

#include <optional>

#include "accelerate/launch/config/enums.h"

namespace accelerate {

inline constexpr const char* kMixedPrecisionVariable = "ACCELERATE_MIXED_PRECISION";
inline constexpr const char* kAccumulationVariable = "ACCELERATE_GRADIENT_ACCUMULATION_STEPS";

/// Returns the type of kMixedPrecisionVariable; nullopt if it is unset. Throws ConfigError for a
/// word that is not allowed.
[[nodiscard]] std::optional<MixedPrecision> launched_mixed_precision();

/// Returns the micro-batches a step of kAccumulationVariable, else of DeepSpeed's own file; nullopt
/// if neither says. Throws ConfigError unless it is a whole number from 1.
[[nodiscard]] std::optional<int> launched_accumulation_steps();

}  // namespace accelerate
