// What a reduction does with two elements. A header of its own, so that the kernels of
// comm/shared_memory need no tensors.
#pragma once

#include <string_view>

namespace accelerate {

/// The names of c10d. band, bor and bxor are "and", "or" and "exclusive or" of the bits, of
/// integers and bool only.
enum class ReduceOp { sum, mean, min, max, product, band, bor, bxor };

/// "sum", "mean", …
[[nodiscard]] std::string_view to_string(ReduceOp op);

}  // namespace accelerate
