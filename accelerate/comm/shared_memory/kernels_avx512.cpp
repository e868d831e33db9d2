#include "accelerate/comm/shared_memory/kernel_loops.h"

namespace accelerate::detail {

const KernelTable kernels_avx512 = kTable;

}  // namespace accelerate::detail
