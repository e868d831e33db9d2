// What the loops of loops.h share: how elements are read and written, registers, and exponentials.
#pragma once

#ifdef __FMA__
#include <immintrin.h>
#endif

#include "accelerate/transformers/models/layers/kernels/kernel_table.h"

namespace accelerate::detail::layer_kernels {
namespace {

using U16 = unsigned short;

// --- How elements are read and written: computed in fp32

struct Float {
  using Element = float;
  static float load(const Element* from) { return *from; }
  static void store(Element* to, float value) { *to = value; }
  static float rounded(float value) { return value; }
};

struct BFloat16 {
  using Element = U16;
  static float load(const Element* from) { return __builtin_bit_cast(float, Word{*from} << 16); }
  static void store(Element* to, float value) {
    const Word bits = __builtin_bit_cast(Word, value);
    const Word rounded = (bits + ((bits >> 16) & 1) + 0x7FFF) >> 16;
    const Word is_nan = 0U - Word{value != value};
    *to = static_cast<U16>((rounded & ~is_nan) | (0x7FC0U & is_nan));
  }
  static float rounded(float value) {
    Element element;
    store(&element, value);
    return load(&element);
  }
};

// a · b + c, rounded once where the processor can.
inline float fused(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

// A register.
#if defined(__AVX512F__)
constexpr Size kLanes = 16;
#elif defined(__AVX2__)
constexpr Size kLanes = 8;
#else
constexpr Size kLanes = 4;
#endif
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

inline Lanes fused(const Lanes& a, const Lanes& b, const Lanes& c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__) && defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

inline Lanes load_lanes(const float* from) {
  Lanes lanes;
  __builtin_memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

inline Lanes load_lanes(const U16* from) {
  using Words = Word __attribute__((vector_size(sizeof(Lanes))));
  U16 __attribute__((vector_size(sizeof(Lanes) / 2))) halves;
  __builtin_memcpy(&halves, from, sizeof halves);
  return reinterpret_cast<Lanes>(__builtin_convertvector(halves, Words) << 16);
}

inline float sum_of(const Lanes& lanes) {
  float sums[kLanes];
  __builtin_memcpy(sums, &lanes, sizeof sums);
  for (Size half = kLanes / 2; half > 0; half /= 2)
    for (Size i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

// --- Exponentials

// A polynomial by Horner's rule, the highest power first.
template <typename... Rest>
[[gnu::always_inline]] inline float polynomial(float x, float sum, float next, Rest... rest) {
  sum = fused(sum, x, next);
  if constexpr (sizeof...(rest) > 0) return polynomial(x, sum, rest...);
  return sum;
}

// The least power of two, below which there is 0.
constexpr float kLeastPower = -127.0F;
constexpr float kRounding = 12582912.0F;  // 1.5 · 2^23: its sum with a small number is whole.

// 2^(n + r) for a whole n from kLeastPower to 127, and |r| <= 1/2. `shifted` is n + kRounding.
// Relative error: 9e-8, or 1e-4 if that is enough. The polynomials are minimax fits.
template <bool kIsExact>
[[gnu::always_inline]] inline float power_of_two(float shifted, float r) {
  const Word one = 0x3F800000U;
  const float scale = __builtin_bit_cast(float, (__builtin_bit_cast(Word, shifted) << 23) + one);
  if constexpr (kIsExact)
    return scale * polynomial(r, 0.001326472389F, 0.00967151287F, 0.05550733754F, 0.2402224208F,
                              0.6931469776F, 1.0F);
  return scale * polynomial(r, 0.05500890305F, 0.2422109679F, 0.6932829327F, 1.0F);
}

// exp(a) for a <= 0; NaN for NaN.
[[gnu::always_inline]] inline float exp_of(float a) {
  constexpr float kLog2E = 1.44269504F, kRestOfLog2E = 1.92596299e-8F, kSmallest = -88.0F;
  const float clamped = kSmallest > a ? kSmallest : a;
  const float shifted = fused(clamped, kLog2E, kRounding);
  const float near = fused(clamped, kLog2E, kRounding - shifted);
  return power_of_two<true>(shifted, fused(clamped, kRestOfLog2E, near));
}

// tanh(x). Relative error: 3e-7. Near 0, where 1 - exp(-2|x|) loses digits, by its series.
[[gnu::always_inline]] inline float tanh_of(float x) {
  constexpr float kNear = 0.25F;
  const float size = __builtin_fabsf(x), power = exp_of(-2 * size);
  const float far = (1 - power) / (1 + power),
              near =
                  size * polynomial(x * x, 62.0F / 2835, -17.0F / 315, 2.0F / 15, -1.0F / 3, 1.0F);
  return __builtin_copysignf(size < kNear ? near : far, x);
}

// --- Rows

template <typename Kind>
float sum_of(const typename Kind::Element* row, Size width) {
  Lanes sums{};
  Size i = 0;
  for (; i + kLanes <= width; i += kLanes) sums += load_lanes(row + i);
  float sum = sum_of(sums);
  for (; i < width; ++i) sum += Kind::load(row + i);
  return sum;
}

inline float largest_of(const float* values, Size count) {
  float most[kLanes];
  for (Size j = 0; j < kLanes; ++j) most[j] = values[0];
  Size i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (Size j = 0; j < kLanes; ++j) most[j] = most[j] > values[i + j] ? most[j] : values[i + j];
  }
  float largest = most[0];
  for (Size j = 1; j < kLanes; ++j) largest = largest > most[j] ? largest : most[j];
  for (; i < count; ++i) largest = largest > values[i] ? largest : values[i];
  return largest;
}

}  // namespace
}  // namespace accelerate::detail::layer_kernels
