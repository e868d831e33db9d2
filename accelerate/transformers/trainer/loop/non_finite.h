// Finds where the first NaN or infinity of a training comes from.
#pragma once

#include <string>

#include "accelerate/transformers/trainer/trainer_core.h"

namespace accelerate::detail {

/// Returns a sentence that names the step and, for a model that is not sharded, the place. With
/// `batch`: the operator from which a loss that is not finite comes, found by computing the forward
/// of `batch` again and looking at each result. With null: the first parameter whose gradient is
/// not finite. Local. Cost: a forward, in which every result is read.
[[nodiscard]] std::string explain_non_finite(TrainerCore& core, const Inputs* batch);

}  // namespace accelerate::detail
