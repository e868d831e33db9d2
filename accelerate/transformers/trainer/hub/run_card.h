// Writes the card of a model that a Trainer trained, from the run.
#pragma once

#include <string>

#include "accelerate/transformers/trainer/trainer_core.h"

namespace accelerate::detail {

/// Returns the text of README.md: what the model was made from, how it was trained, and how well it
/// did.
/// Source of the sections: `TrainingSummary` of Transformers.
[[nodiscard]] std::string run_card(const TrainerCore& core);

}  // namespace accelerate::detail
