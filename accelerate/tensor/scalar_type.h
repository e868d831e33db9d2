// Converts LibTorch's dtypes to the dtypes of files and back.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "accelerate/formats/safetensors/dtype.h"

namespace accelerate {

/// Returns the safetensors dtype of `type`. Throws CheckpointError for types that the format lacks.
[[nodiscard]] DType to_dtype(c10::ScalarType type);

/// Returns the LibTorch dtype of `dtype`. Throws CheckpointError for types that LibTorch lacks.
[[nodiscard]] c10::ScalarType to_scalar_type(DType dtype);

/// Returns Python's name of `type`: "float32", "bool".
[[nodiscard]] std::string python_name(c10::ScalarType type);

/// Whether both types have floating-point numbers, both complex ones, or both whole ones, of which
/// bool is one. Within a kind, a conversion only rounds.
[[nodiscard]] bool are_of_one_kind(c10::ScalarType a, c10::ScalarType b);

/// Convert a tensor's shape to its shape in a file, and back. The shapes differ for one type: an
/// element of LibTorch's Float4_e2m1fn_x2 is two F4, side by side in the last dimension. Throw
/// CheckpointError for a scalar of this type, and for an odd number of F4.
[[nodiscard]] std::vector<std::int64_t> to_stored_shape(c10::ScalarType type,
                                                        std::vector<std::int64_t> sizes);
[[nodiscard]] std::vector<std::int64_t> from_stored_shape(DType dtype,
                                                          std::vector<std::int64_t> shape);

}  // namespace accelerate
