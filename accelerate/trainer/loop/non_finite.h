// Where the first NaN or infinity of a training comes from.
#pragma once

#include <string>

#include "accelerate/trainer/trainer_core.h"

namespace accelerate::detail {

/// A sentence that names the step and the layer: of a loss, by computing the forward of `batch`
/// again and looking at the result of each operator; of gradients (`batch` null), by the first
/// parameter whose gradient is not finite. Cost: a forward, in which every result is read. Local
/// for a model that is not sharded; of a sharded one the parameters are looked at alone.
[[nodiscard]] std::string explain_non_finite(TrainerCore& core, const Inputs* batch);

}  // namespace accelerate::detail
