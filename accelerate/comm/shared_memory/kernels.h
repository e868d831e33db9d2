// Arithmetic of the collectives over memory: several tensors become one, and copies.
//
// The loops are compiled for several instruction sets, and the best one that this processor has is
// chosen at the first use; all of them give the same bits. Nothing here knows ranks, waits or
// locks.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "accelerate/comm/reduce_op.h"

namespace accelerate::detail {

/// Whether reduce_elements takes `dtype`: float, double, half, bfloat16, bool, uint8, int8, int16,
/// int32 and int64. The rest becomes one of these in comm/staging.
[[nodiscard]] bool has_kernel(at::ScalarType dtype);

/// Every destination[i] becomes sources[0][i] op sources[1][i] op …, in this order, for `count`
/// elements. A destination may be one of the sources (the same address), else they do not overlap.
/// All are aligned to the element, no more. At least one source and one destination.
///
/// float, double: as C++ computes it, without reassociation. half, bfloat16: in float, rounded once
/// to nearest even, any NaN as c10's. Integers: modulo 2^bits. bool: sum and max are "or",
/// product, min and mean are "and", results 0 or 1 whatever the bytes were. mean divides the sum of
/// the dtype by sources.size(), integers toward zero. min and max hand on the first NaN. band, bor,
/// bxor: integers and bool, which the caller has checked.
///
/// Results may be published by a release store afterwards. Cost: each source is read once, in tiles
/// that stay in the first-level cache, and the finished tile is stored to every destination.
void reduce_elements(std::span<std::byte* const> destinations,
                     std::span<const std::byte* const> sources, std::size_t count,
                     at::ScalarType dtype, ReduceOp op);

/// memcpy whose stores pass the caches by, for results that are not read soon: it saves reading the
/// destination's lines, and the cache for those who need it. Results may be published by a release
/// store afterwards. Ranges do not overlap. Measured (`micro_collective_kernels`): 1.1 to 1.3 times
/// memcpy where the bytes exceed the last-level cache, 0.7 times where they stay in it.
void copy_streaming(std::byte* destination, const std::byte* source, std::size_t bytes);

/// The instruction sets for which the loops were compiled and which this processor has: "baseline"
/// first, the one in use unless told otherwise last.
[[nodiscard]] std::vector<std::string_view> kernel_versions();

/// For tests and benchmarks: reduce_elements of all threads uses `version` of kernel_versions()
/// from now on. False when there is none of that name.
bool choose_kernels(std::string_view version);

}  // namespace accelerate::detail
