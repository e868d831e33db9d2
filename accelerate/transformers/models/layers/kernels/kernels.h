// The loops of layers on the CPU: GELU, dropout, norms and random numbers. They are compiled once
// per instruction set and chosen at run time.
#pragma once

#include <string_view>
#include <vector>

#include "accelerate/transformers/models/layers/kernels/kernel_table.h"

namespace accelerate::detail::layer_kernels {

/// Returns the loops for the best instruction set that this processor has.
[[nodiscard]] const KernelTable& loops() noexcept;

/// Whether this processor has more than the baseline, than which LibTorch's kernels are no slower.
[[nodiscard]] bool are_vectorised() noexcept;

/// Returns the instruction sets that run here, the slowest first: "baseline", "avx2", "avx512".
[[nodiscard]] std::vector<std::string_view> versions();

/// Makes loops() return `version`, one of versions(), on all threads from now on. For tests.
/// Returns false for any other name.
bool choose(std::string_view version);

}  // namespace accelerate::detail::layer_kernels
