#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/native/CPUBlas.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <iostream>

#include "accelerate/tensor/compat/matrix_products.h"
#include "cli/with_libtorch/tasks.h"

namespace accelerate::cli {

void describe_libtorch() {
  std::cout << "- LibTorch loaded: " << TORCH_VERSION << ", vectors of " << at::get_cpu_capability()
            << ", " << at::get_num_threads() << " threads\n"
            << "- Products of fp32 matrices on the CPU: " << to_string(compat::matrix_library())
            << "\n"
            << "- CUDA in LibTorch: ";
  if (!at::hasCUDA()) {
    std::cout << "no\n";
    return;
  }
  std::cout << (torch::cuda::is_available()
                    ? std::to_string(torch::cuda::device_count()) + " devices\n"
                    : std::string("yes, and no device can be used\n"));
}

}  // namespace accelerate::cli
