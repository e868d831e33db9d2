// LibTorch's dtypes and the names files use for them.
#pragma once

#include <c10/core/ScalarType.h>

#include "accelerate/formats/dtype.h"

namespace accelerate {

/// The safetensors dtype of `type`. Throws CheckpointError for types that the format does not have.
[[nodiscard]] DType to_dtype(c10::ScalarType type);

/// The LibTorch dtype of `dtype`. Throws CheckpointError for types that LibTorch does not have.
[[nodiscard]] c10::ScalarType to_scalar_type(DType dtype);

}  // namespace accelerate
