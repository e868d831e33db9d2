// The arithmetic of collectives through shared memory: reductions of several tensors, and copies.
//
// The loops are compiled for several instruction sets. The best set that this processor has is
// chosen at the first use; all sets give the same bits. Nothing here knows ranks, waits or locks.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "accelerate/comm/reduce_op.h"

namespace accelerate::detail {

/// Whether reduce_elements takes `dtype`: float, double, half, bfloat16, bool, uint8, int8, int16,
/// int32 and int64. comm/communicable_tensors converts all other dtypes to one of these.
[[nodiscard]] bool has_kernel(at::ScalarType dtype);

/// Element i of every destination becomes sources[0][i] op sources[1][i] op …, in this order, for
/// `count` elements. A destination may be one of the sources (the same address); otherwise they
/// must not overlap. All need only the alignment of an element. There must be at least one source
/// and one destination.
///
/// float, double: as C++ computes it, without reassociation. half, bfloat16: in float, rounded once
/// to nearest even; every NaN becomes the NaN of c10. Integers: modulo 2^bits. bool: sum and max
/// are "or"; product, min and mean are "and"; results are 0 or 1 whatever the bytes were. mean
/// divides the sum by sources.size(), integers toward zero. min and max return the first NaN. band,
/// bor, bxor: integers and bool only, which the caller must check.
///
/// Results may be published by a release store afterwards. Cost: each source is read once, in tiles
/// that stay in the first-level cache, and the finished tile is stored to every destination.
void reduce_elements(std::span<std::byte* const> destinations,
                     std::span<const std::byte* const> sources, std::size_t count,
                     at::ScalarType dtype, ReduceOp op);

/// Copies as memcpy, but with stores that bypass the caches, for results that are not read soon.
/// The destination's lines need not be read first, and other data stays in the cache. Results may
/// be published by a release store afterwards. Ranges must not overlap. Speed measured by
/// `micro_collective_kernels`: 1.1 to 1.3 times memcpy if the bytes exceed the last-level cache,
/// 0.7 times if they fit.
void copy_streaming(std::byte* destination, const std::byte* source, std::size_t bytes);

/// Returns the instruction sets for which the loops were compiled and which this processor has:
/// "baseline" first, the default last.
[[nodiscard]] std::vector<std::string_view> kernel_versions();

/// Makes reduce_elements use `version`, one of kernel_versions(), on all threads from now on. For
/// tests and benchmarks. Returns false if there is no such version.
bool choose_kernels(std::string_view version);

}  // namespace accelerate::detail
