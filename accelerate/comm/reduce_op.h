// What a reduction does with two elements. It has a separate header, so that the kernels of
// comm/shared_memory need no tensors.
#pragma once

#include <string_view>

namespace accelerate {

/// Named as in c10d. band, bor and bxor are the bitwise "and", "or" and "exclusive or", for
/// integers and bool only.
enum class ReduceOp { sum, mean, min, max, product, band, bor, bxor };

/// Returns "sum", "mean", …
[[nodiscard]] std::string_view to_string(ReduceOp op);

}  // namespace accelerate
