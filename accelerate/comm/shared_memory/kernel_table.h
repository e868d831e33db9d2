// The interface between kernels.cpp and the loops, which are compiled once per instruction set. It
// is plain data: a type with inline functions could be compiled for one instruction set and linked
// into the code of another.
#pragma once

namespace accelerate::detail {

/// Sizes and counts are unsigned long, which equals std::size_t, because no header may be included.
struct KernelWork {
  void* const* destinations;
  unsigned long num_destinations;
  const void* const* sources;
  unsigned long num_sources;
  unsigned long count;  ///< Number of elements.
};

using ReduceLoop = void (*)(const KernelWork&);

/// The rows (dtypes) and columns (reductions, in the order of ReduceOp) of the table. An entry is
/// null if the dtype does not have the reduction.
enum KernelType { kF32, kF64, kF16, kBF16, kBool, kU8, kI8, kI16, kI32, kI64, kNumKernelTypes };
enum KernelOp { kSum, kMean, kMin, kMax, kProduct, kBand, kBor, kBxor, kNumKernelOps };

struct KernelTable {
  ReduceLoop loops[kNumKernelTypes][kNumKernelOps];
};

extern const KernelTable kernels_baseline;
extern const KernelTable kernels_avx2;    ///< x86-64 only.
extern const KernelTable kernels_avx512;  ///< x86-64 only.

}  // namespace accelerate::detail
