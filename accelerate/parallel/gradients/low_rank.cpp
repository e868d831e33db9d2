#include "accelerate/parallel/gradients/low_rank.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>

namespace accelerate::detail {
namespace {

void gram_schmidt(const at::Tensor& matrices, double epsilon) {
  const auto columns = matrices.size(2);
  for (std::int64_t i = 0; i < columns; ++i) {
    const auto column = matrices.narrow(2, i, 1);
    auto norm = at::norm(column, 2, /*dim=*/{1}, /*keepdim=*/true);
    if (epsilon != 0) {
      norm = norm + epsilon;
    } else {
      norm = norm.masked_fill(norm == 0, 1);
    }
    column.div_(norm);
    if (i + 1 == columns) return;
    const auto rest = matrices.narrow(2, i + 1, columns - i - 1);
    rest.sub_(at::sum(column * rest, /*dim=*/{1}, /*keepdim=*/true) * column);
  }
}

}  // namespace

void orthogonalize(const at::Tensor& matrices, double epsilon) {
  const auto dtype = matrices.scalar_type();
  if (matrices.size(2) <= 2 || dtype == at::kHalf || dtype == at::kBFloat16) {
    gram_schmidt(matrices, epsilon);
  } else {
    matrices.copy_(std::get<0>(at::linalg_qr(matrices)));
  }
}

std::uint64_t StepSeeds::next() {
  constexpr std::uint32_t kBelow = 1'000'000'000;
  constexpr std::uint32_t kMask = (std::uint32_t{1} << 30) - 1;  // the bits that kBelow needs
  for (;;) {
    const auto drawn = static_cast<std::uint32_t>(generator_()) & kMask;
    if (drawn < kBelow) return drawn;
  }
}

NormalFiller::NormalFiller(std::uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

// Drawn on the CPU, so that all devices get the same numbers.
void NormalFiller::fill(const at::Tensor& tensor) {
  tensor.copy_(at::randn(tensor.sizes(), generator_, tensor.options().device(at::kCPU)));
}

}  // namespace accelerate::detail
