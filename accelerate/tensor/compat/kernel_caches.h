// How many compiled kernels oneDNN keeps.
#pragma once

namespace accelerate::compat {

/// Makes LibTorch's oneDNN keep the kernels of 64 calls, and their descriptions of 16, instead of
/// 1,024 of each. A kernel fits one shape, and a product of matrices takes a megabyte: where the
/// number of tokens changes with every batch, a gigabyte would gather. Process-wide: sets
/// ONEDNN_PRIMITIVE_CACHE_CAPACITY and LRU_CACHE_CAPACITY, each unless the user has set it. oneDNN
/// reads them at its first call. Call this before, and before other threads read the environment.
void bound_kernel_caches();

}  // namespace accelerate::compat
