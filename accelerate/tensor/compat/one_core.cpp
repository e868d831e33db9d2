#include "accelerate/tensor/compat/one_core.h"

#include <ATen/Parallel.h>

// Provided by the OpenMP runtime that LibTorch loads; absent in builds with another thread pool.
extern "C" void omp_set_num_threads(int) __attribute__((weak));

namespace accelerate::detail {

// at::set_num_threads would also change the default of threads started later; OpenMP's own setting
// belongs to the calling thread. LibTorch overwrites it at a thread's first use, so that goes
// first: asked for the number, LibTorch's own library does so (its inline twin has a flag of ours).
void compute_on_one_core() {
  static_cast<void>(at::get_num_threads());
  if (omp_set_num_threads != nullptr) omp_set_num_threads(1);
}

}  // namespace accelerate::detail
