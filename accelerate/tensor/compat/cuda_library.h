// What needs CUDA's headers lies in a library of its own, libaccelerate_cuda.so, which is opened when
// LibTorch has CUDA. So one build serves LibTorch with CUDA and without.
#pragma once

#include <string>

namespace accelerate::compat {

/// A function of libaccelerate_cuda.so, which lies beside this library.
struct CudaFunction {
  void* address = nullptr;
  std::string why_not;  ///< If `address` is null: a sentence, e.g. "this build has no …".
};

/// Looks up the function of that C name; opens the library at the first call. Never throws for a
/// library that is missing or does not fit.
[[nodiscard]] CudaFunction cuda_function(const char* name);

}  // namespace accelerate::compat
