// The size of a model, and what a token costs.
#pragma once

#include <cstdint>

#include "accelerate/transformers/trainer/trainable_model.h"

namespace accelerate::detail {

struct ModelSize {
  std::int64_t parameters = 0;  ///< Each counts once, tied or not.
  std::int64_t trained = 0;     ///< How many of `parameters` have gradients.
  std::int64_t embeddings = 0;  ///< How many of `parameters` are tables of embeddings.
};

[[nodiscard]] ModelSize size_of(const TrainableModel& model);

/// The number of floating-point operations in a token's forward and backward: six for each
/// parameter outside the tables of embeddings; 0 for a model that is not from models/. Source:
/// `floating_point_ops` of Transformers.
[[nodiscard]] double flops_per_token(const TrainableModel& model);

}  // namespace accelerate::detail
