// LibTorch's dtypes and the names files use for them.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

#include "accelerate/formats/safetensors/dtype.h"

namespace accelerate {

/// The safetensors dtype of `type`. Throws CheckpointError for types that the format does not have.
[[nodiscard]] DType to_dtype(c10::ScalarType type);

/// The LibTorch dtype of `dtype`. Throws CheckpointError for types that LibTorch does not have.
[[nodiscard]] c10::ScalarType to_scalar_type(DType dtype);

/// The shape in a file of a tensor of `type` with the shape `sizes`, and the way back. They differ
/// for one type: an element of LibTorch's Float4_e2m1fn_x2 is two of F4, side by side in the last
/// dimension. Throws CheckpointError for a scalar of that type, and for an odd number of F4.
[[nodiscard]] std::vector<std::int64_t> to_stored_shape(c10::ScalarType type,
                                                        std::vector<std::int64_t> sizes);
[[nodiscard]] std::vector<std::int64_t> from_stored_shape(DType dtype,
                                                          std::vector<std::int64_t> shape);

}  // namespace accelerate
