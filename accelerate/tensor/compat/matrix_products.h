// Which library multiplies fp32 matrices on the CPU: the one that LibTorch calls by itself (MKL on
// x86), or oneDNN, which lies in the same libtorch_cpu.so. On some processors MKL uses half of what
// they can do.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "accelerate/base/machine/hardware.h"

namespace accelerate::compat {

enum class MatrixLibrary { mkl, onednn };

[[nodiscard]] std::string to_string(MatrixLibrary library);

/// Returns the library that is faster on `processor`, by a table of measurements
/// (docs/decisions/who_multiplies.md). Depends on nothing else, so all ranks on such processors
/// compute the same bits.
[[nodiscard]] MatrixLibrary faster_library(const Processor& processor);

/// Returns what ACCELERATE_CPU_MATMUL asks for: "mkl", "onednn", or "auto" (the default), which
/// means faster_library() of this machine. Throws ConfigError for another word, and for "onednn"
/// when this LibTorch has no
/// oneDNN, or the processor no AVX-512.
[[nodiscard]] MatrixLibrary matrix_library();

/// While alive, products that the calling thread computes go to matrix_library(): mm, addmm, bmm and
/// baddbmm of fp32 matrices on the CPU, and what consists of them (linear, matmul, einsum), forward
/// and backward. Products of fewer than a million multiplications, or with a size below 32, stay with
/// MKL: a call of oneDNN takes 8 µs more. Scopes nest. Cost: nanoseconds; the first scope replaces LibTorch's
/// kernels of these four operators by kernels that ask for the scope.
class MatrixProducts {
 public:
  /// Does nothing if not `wanted`, or if the library is MKL.
  explicit MatrixProducts(bool wanted = true);
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  /// Whether the calling thread is in a scope, or in the backward of an `extended` result.
  [[nodiscard]] static bool are_wanted();
  /// Lets the backward that begins at `result` compute its products as within a scope. For a forward
  /// whose backward is called by others. `result` may be undefined or without gradient.
  static void extend_to_backward_of(const at::Tensor& result);

 private:
  bool before_;
};

}  // namespace accelerate::compat
