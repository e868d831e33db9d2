// How large a model is, and what a token costs.
#pragma once

#include <cstdint>

#include "accelerate/trainer/trainable_model.h"

namespace accelerate::detail {

struct ModelSize {
  std::int64_t parameters = 0;  ///< Each once, tied ones too.
  std::int64_t trained = 0;     ///< Of these the ones that have gradients.
  std::int64_t embeddings = 0;  ///< Of these the tables of embeddings.
};

[[nodiscard]] ModelSize size_of(const TrainableModel& model);

/// Floating-point operations of a token's forward and backward: six for each parameter that is not
/// in a table of embeddings; 0 for a model that is not of models/.
/// Source: `floating_point_ops` of Transformers.
[[nodiscard]] double flops_per_token(const TrainableModel& model);

}  // namespace accelerate::detail
