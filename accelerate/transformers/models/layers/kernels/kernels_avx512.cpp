#include "accelerate/transformers/models/layers/kernels/loops.h"

namespace accelerate::detail::layer_kernels {

const KernelTable kernels_avx512 = kTable;

}  // namespace accelerate::detail::layer_kernels
