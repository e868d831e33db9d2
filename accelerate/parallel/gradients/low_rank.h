// Linear algebra and random numbers of PowerSGD.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <random>

namespace accelerate::detail {

/// Makes the columns of `matrices` ([batch, rows, columns ≤ rows]) orthonormal, in place: by
/// Gram-Schmidt for up to two columns and for 16-bit dtypes, else by QR. Gram-Schmidt adds
/// `epsilon` to the norm of a column. A column of zeros stays zero; upstream's becomes NaN.
void orthogonalize(const at::Tensor& matrices, double epsilon);

/// Draws seeds that differ from step to step and agree on all ranks: the numbers of numpy's
/// RandomState(seed).randint(1000000000).
class StepSeeds {
 public:
  explicit StepSeeds(std::uint32_t seed) : generator_(seed) {}
  std::uint64_t next();

 private:
  std::mt19937 generator_;
};

/// Fills tensors with standard normal numbers, the same as torch.randn after
/// torch.manual_seed(seed). Leaves the default generator alone.
class NormalFiller {
 public:
  explicit NormalFiller(std::uint64_t seed);
  void fill(const at::Tensor& tensor);

 private:
  at::Generator generator_;
};

}  // namespace accelerate::detail
