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

// T: float or c10::BFloat16. Sums are fp32; a result is rounded to T once, with the bias in it.
template <typename T>
struct Matrices {
  const T* input;   // {rows, in}
  const T* weight;  // {out, in}
  const T* bias;    // {out} or null
  T* output;        // {rows, out}
  std::int64_t in, out;
};

#if defined(__x86_64__)
// A register of AVX2. Wider registers gain nothing for one row: memory is the limit.
using Lanes = float __attribute__((vector_size(32)));
using Words = std::uint32_t __attribute__((vector_size(32)));
using HalfLanes = float __attribute__((vector_size(16)));
constexpr int kLanes = sizeof(Lanes) / sizeof(float);

// Loads 2 · kLanes numbers as fp32.
ACCELERATE_AVX2 inline void load(const float* from, Lanes& first, Lanes& second) {
  std::memcpy(&first, from, sizeof first);
  std::memcpy(&second, from + kLanes, sizeof second);
}
// In a word of two numbers, the upper half of an fp32 is one of them. That makes two operations of
// a load; in the order of memory it would be four.
ACCELERATE_AVX2 inline void load(const c10::BFloat16* from, Lanes& even, Lanes& odd) {
  Words words;
  std::memcpy(&words, from, sizeof words);
  const Words lower = words << 16, upper = words & 0xffff0000U;
  std::memcpy(&even, &lower, sizeof even);
  std::memcpy(&odd, &upper, sizeof odd);
}

ACCELERATE_AVX2 inline float sum_of(const Lanes& lanes) {
  HalfLanes sums, upper;
  std::memcpy(&sums, &lanes, sizeof sums);
  std::memcpy(&upper, reinterpret_cast<const char*>(&lanes) + sizeof sums, sizeof upper);
  sums += upper;
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// Computes outputs [begin, end). Reads each weight once, in the order of memory: reading several
// rows of weights side by side is no faster than BLAS.
template <int Rows, typename T>
ACCELERATE_AVX2 void multiply_rows(const Matrices<T>& m, std::int64_t begin, std::int64_t end) {
  constexpr int kUnrolled = Rows * sizeof(T) <= sizeof(float) ? 4 : 2;
  constexpr std::int64_t kStep = kUnrolled * kLanes, kCacheLine = 64;
  // In bytes, a page of fp32 and two of bf16: the fastest distances measured. The processor's own
  // prefetching ends with a page. Weights are read once, and need not displace what the outer
  // caches hold: locality 0.
  constexpr std::int64_t kAhead = 16384 / sizeof(T);
  const std::int64_t whole = m.in / kStep * kStep;
  for (std::int64_t out = begin; out < end; ++out) {
    const T* weights = m.weight + out * m.in;
    Lanes sums[Rows][kUnrolled] = {};
    for (std::int64_t k = 0; k < whole; k += kStep) {
      const char* ahead = reinterpret_cast<const char*>(weights + k) + kAhead;
#pragma GCC unroll 4
      for (std::int64_t byte = 0; byte < kStep * std::int64_t{sizeof(T)}; byte += kCacheLine)
        __builtin_prefetch(ahead + byte, /*write=*/0, /*locality=*/0);
#pragma GCC unroll 4
      for (int u = 0; u < kUnrolled; u += 2) {
        Lanes weight[2], input[2];
        load(weights + k + u * kLanes, weight[0], weight[1]);
#pragma GCC unroll 4
        for (int row = 0; row < Rows; ++row) {
          load(m.input + row * m.in + k + u * kLanes, input[0], input[1]);
          sums[row][u] += weight[0] * input[0];
          sums[row][u + 1] += weight[1] * input[1];
        }
      }
    }
#pragma GCC unroll 4
    for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
      for (int u = 1; u < kUnrolled; ++u) sums[row][0] += sums[row][u];
      float sum = sum_of(sums[row][0]);
      for (std::int64_t k = whole; k < m.in; ++k)
        sum += static_cast<float>(m.input[row * m.in + k]) * static_cast<float>(weights[k]);
      if (m.bias != nullptr) sum += static_cast<float>(m.bias[out]);
      m.output[row * m.out + out] = static_cast<T>(sum);
    }
  }
}

// Computes outputs [begin, end) of 1 to 4 rows.
template <typename T>
void multiply(const Matrices<T>& m, std::int64_t rows, std::int64_t begin, std::int64_t end) {
  if (rows == 1) multiply_rows<1>(m, begin, end);
  if (rows == 2) multiply_rows<2>(m, begin, end);
  if (rows == 3) multiply_rows<3>(m, begin, end);
  if (rows == 4) multiply_rows<4>(m, begin, end);
}
#else
template <typename T>
void multiply(const Matrices<T>&, std::int64_t, std::int64_t, std::int64_t) {}
#endif

// Computes outputs [begin, end) of any number of rows, four at a time. All but the first four read
// the weights from a cache.
template <typename T>
void multiply_by_blocks(const Matrices<T>& all, std::int64_t rows, std::int64_t begin,
                        std::int64_t end) {
  constexpr std::int64_t kRowsAtOnce = 4;
  for (std::int64_t row = 0; row < rows; row += kRowsAtOnce) {
    Matrices<T> part = all;
    part.input += row * all.in;
    part.output += row * all.out;
    multiply(part, std::min(kRowsAtOnce, rows - row), begin, end);
  }
}

// Fills `output`, {…, out}. The tensors are of type T and contiguous.
template <typename T>
void multiply_all(const at::Tensor& input, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias, const at::Tensor& output) {
  constexpr std::int64_t kWeightsAtOnce = 1 << 16;  // 256 KiB in fp32.
  const Matrices<T> all{input.const_data_ptr<T>(),
                        weight.const_data_ptr<T>(),
                        bias && bias->defined() ? bias->const_data_ptr<T>() : nullptr,
                        output.mutable_data_ptr<T>(),
                        weight.size(1),
                        weight.size(0)};
  const std::int64_t count = input.numel() / all.in;
  const std::int64_t block = std::max<std::int64_t>(1, kWeightsAtOnce / all.in);
  at::parallel_for(0, all.out, block, [&](std::int64_t begin, std::int64_t end) {
    for (; begin < end; begin += block)
      multiply_by_blocks(all, count, begin, std::min(begin + block, end));
  });
}

at::Tensor compute(const at::Tensor& input, const at::Tensor& weight,
                   const std::optional<at::Tensor>& bias) {
  if (!has_avx2()) return at::linear(input, weight, bias);
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape.back() = weight.size(0);
  at::Tensor output = at::empty(shape, input.options());
  const auto multiply_all_of =
      input.scalar_type() == at::kFloat ? multiply_all<float> : multiply_all<c10::BFloat16>;
  multiply_all_of(input.contiguous(), weight, bias, output);
  return output;
}

TORCH_LIBRARY(accelerate, library) {
  library.def("linear_of_few_rows(Tensor input, Tensor weight, Tensor? bias) -> Tensor");
}
TORCH_LIBRARY_IMPL(accelerate, CPU, library) {
  library.impl("linear_of_few_rows", compute);
}

bool is_plain(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.device().is_cpu() && tensor.scalar_type() == type;
}

}  // namespace

bool are_few_rows(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  const auto type = weight.scalar_type();
  return c10::InferenceMode::is_enabled() && (type == at::kFloat || type == at::kBFloat16) &&
         is_plain(input, type) && is_plain(weight, type) && weight.is_contiguous() &&
         input.dim() > 0 && input.size(-1) == weight.size(1) && weight.size(1) > 0 &&
         input.numel() <= kFewRows * weight.size(1) &&
         (!bias.defined() || (is_plain(bias, type) && bias.is_contiguous())) && has_avx2() &&
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
