#include "accelerate/transformers/models/layers/linear.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "accelerate/base/machine/hardware.h"

namespace accelerate::detail {
namespace {

struct Matrices {
  const float* input;   // {rows, in}
  const float* weight;  // {out, in}
  const float* bias;    // {out} or null
  float* output;        // {rows, out}
  std::int64_t in, out;
};

#if defined(__x86_64__)
// A register of AVX2. Wider registers gain nothing: memory is the limit.
using Lanes = float __attribute__((vector_size(32)));
constexpr int kLanes = sizeof(Lanes) / sizeof(float);

ACCELERATE_AVX2 inline float sum_of(const Lanes& lanes) {
  float sums[kLanes];
  std::memcpy(sums, &lanes, sizeof sums);
#pragma GCC unroll 4
  for (int half = kLanes / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

// Computes outputs [begin, end). Reads each weight once, in the order of memory: reading several
// rows of weights side by side is no faster than BLAS.
template <int Rows>
ACCELERATE_AVX2 void multiply_rows(const Matrices& m, std::int64_t begin, std::int64_t end) {
  constexpr int kUnrolled = Rows == 1 ? 4 : 2;
  constexpr std::int64_t kStep = kUnrolled * kLanes;
  const std::int64_t whole = m.in / kStep * kStep;
  for (std::int64_t out = begin; out < end; ++out) {
    const float* weights = m.weight + out * m.in;
    Lanes sums[Rows][kUnrolled] = {};
    for (std::int64_t k = 0; k < whole; k += kStep) {
#pragma GCC unroll 4
      for (int u = 0; u < kUnrolled; ++u) {
        Lanes weight, input;
        std::memcpy(&weight, weights + k + u * kLanes, sizeof weight);
#pragma GCC unroll 4
        for (int row = 0; row < Rows; ++row) {
          std::memcpy(&input, m.input + row * m.in + k + u * kLanes, sizeof input);
          sums[row][u] += weight * input;
        }
      }
    }
#pragma GCC unroll 4
    for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
      for (int u = 1; u < kUnrolled; ++u) sums[row][0] += sums[row][u];
      float sum = sum_of(sums[row][0]);
      for (std::int64_t k = whole; k < m.in; ++k) sum += m.input[row * m.in + k] * weights[k];
      m.output[row * m.out + out] = m.bias == nullptr ? sum : sum + m.bias[out];
    }
  }
}

// Computes outputs [begin, end) of 1 to 4 rows.
void multiply(const Matrices& m, std::int64_t rows, std::int64_t begin, std::int64_t end) {
  if (rows == 1) multiply_rows<1>(m, begin, end);
  if (rows == 2) multiply_rows<2>(m, begin, end);
  if (rows == 3) multiply_rows<3>(m, begin, end);
  if (rows == 4) multiply_rows<4>(m, begin, end);
}
#else
void multiply(const Matrices&, std::int64_t, std::int64_t, std::int64_t) {}
#endif

// Computes outputs [begin, end) of any number of rows, four at a time. All but the first four read
// the weights from a cache.
void multiply_by_blocks(const Matrices& all, std::int64_t rows, std::int64_t begin,
                        std::int64_t end) {
  constexpr std::int64_t kRowsAtOnce = 4;
  for (std::int64_t row = 0; row < rows; row += kRowsAtOnce) {
    Matrices part = all;
    part.input += row * all.in;
    part.output += row * all.out;
    multiply(part, std::min(kRowsAtOnce, rows - row), begin, end);
  }
}

at::Tensor compute(const at::Tensor& input, const at::Tensor& weight,
                   const std::optional<at::Tensor>& bias) {
  if (!has_avx2()) return at::linear(input, weight, bias);
  constexpr std::int64_t kWeightsAtOnce = 1 << 16;  // 256 KiB.
  const at::Tensor rows = input.contiguous();
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape.back() = weight.size(0);
  at::Tensor output = at::empty(shape, input.options());
  const Matrices all{rows.const_data_ptr<float>(),
                     weight.const_data_ptr<float>(),
                     bias && bias->defined() ? bias->const_data_ptr<float>() : nullptr,
                     output.mutable_data_ptr<float>(),
                     weight.size(1),
                     weight.size(0)};
  const std::int64_t count = rows.numel() / all.in;
  const std::int64_t block = std::max<std::int64_t>(1, kWeightsAtOnce / all.in);
  at::parallel_for(0, all.out, block, [&](std::int64_t begin, std::int64_t end) {
    for (; begin < end; begin += block)
      multiply_by_blocks(all, count, begin, std::min(begin + block, end));
  });
  return output;
}

TORCH_LIBRARY(accelerate, library) {
  library.def("linear_of_few_rows(Tensor input, Tensor weight, Tensor? bias) -> Tensor");
}
TORCH_LIBRARY_IMPL(accelerate, CPU, library) {
  library.impl("linear_of_few_rows", compute);
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat;
}

}  // namespace

bool are_few_rows(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  return c10::InferenceMode::is_enabled() && is_plain(input) && is_plain(weight) &&
         weight.is_contiguous() && input.dim() > 0 && input.size(-1) == weight.size(1) &&
         weight.size(1) > 0 && input.numel() <= kFewRows * weight.size(1) &&
         (!bias.defined() || (is_plain(bias) && bias.is_contiguous())) && has_avx2() &&
         !at::autocast::is_autocast_enabled(at::kCPU);
}

at::Tensor linear_of_few_rows(const at::Tensor& input, const at::Tensor& weight,
                              const at::Tensor& bias) {
  static const auto kOperator = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("accelerate::linear_of_few_rows", "")
                                    .typed<decltype(compute)>();
  return kOperator.call(input, weight, bias.defined() ? std::optional(bias) : std::nullopt);
}

}  // namespace accelerate::detail
