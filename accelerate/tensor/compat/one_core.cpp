#include "accelerate/tensor/compat/one_core.h"

#include <ATen/Parallel.h>

// Provided by the OpenMP runtime that LibTorch loads; absent in builds with another thread pool.
extern "C" void omp_set_num_threads(int) __attribute__((weak));

namespace accelerate::detail {

// at::set_num_threads would also change the default of threads that start later. OpenMP's own
// setting belongs to the calling thread, but LibTorch overwrites it at a thread's first use. So
// trigger this first use before. at::get_num_threads does so inside LibTorch's library; the inline
// function in LibTorch's headers has a separate flag in our library.
void compute_on_one_core() {
  static_cast<void>(at::get_num_threads());
  if (omp_set_num_threads != nullptr) omp_set_num_threads(1);
}

}  // namespace accelerate::detail
