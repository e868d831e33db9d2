// The loops of kernel_table.h, for one instruction set: kernels_<set>.cpp includes this file and is
// compiled with the flags of that set. Everything is in an anonymous namespace, and no header with
// inline functions is included. Otherwise the linker could use a function with AVX instructions in
// the baseline.
#pragma once

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

// --- GELU

// exp(a) for -87 <= a <= 0, and NaN for NaN. Error: below 1 ulp.
inline float exp_of(float a) {
  constexpr float kLog2E = 1.44269504F, kHigh = 0.693359375F, kLow = -2.12194440e-4F;
  constexpr float kRounding = 12582912.0F;  // 1.5 · 2^23: its sum with a small number is whole.
  const float shifted = fused(a, kLog2E, kRounding);
  const float n = shifted - kRounding;
  const float r = fused(n, -kLow, fused(n, -kHigh, a));
  float p = 1.9875691500e-4F;
  p = fused(p, r, 1.3981999507e-3F);
  p = fused(p, r, 8.3334519073e-3F);
  p = fused(p, r, 4.1665795894e-2F);
  p = fused(p, r, 1.6666665459e-1F);
  p = fused(p, r, 5.0000001201e-1F);
  p = fused(p, r * r, r) + 1.0F;
  return __builtin_bit_cast(
      float, __builtin_bit_cast(Word, p) + (__builtin_bit_cast(Word, shifted) << 23));
}

// Φ(x), the distribution of the normal distribution, and the exponential in its density.
struct Normal {
  float distribution, exponential;
};

// Φ(-t) is exp(-t²/2) times Mills' ratio, which is a smooth function of 1 / (1 + 0.31 t). So both
// tails are accurate. The polynomial is a minimax fit by Remez' algorithm, relative error 9e-9.
inline Normal normal_at(float x) {
  constexpr float kSmallest = -87.0F;
  const float square = x * x;
  const float exponent = -0.5F * square;
  const float lost = fused(x, x, -square);  // What rounding took from the square.
  const float clamped = exponent < kSmallest ? kSmallest : exponent;
  const float raw = exp_of(clamped);
  const float exponential = exponent < kSmallest ? 0.0F : fused(raw, -0.5F * lost, raw);
  const float magnitude = __builtin_fabsf(x);
  const float step = 0.31F * (magnitude < 20.0F ? magnitude : 20.0F);
  const float u = 1.0F / (1.0F + step), v = step * u;
  float p = 0.01929450128F;
  p = fused(p, v, -0.07848790316F);
  p = fused(p, v, 0.09775554464F);
  p = fused(p, v, -0.01403317564F);
  p = fused(p, v, 0.008723507711F);
  p = fused(p, v, -0.1306646431F);
  p = fused(p, v, -0.01960981185F);
  p = fused(p, v, 0.527599762F);
  p = fused(p, v, -0.7869096447F);
  p = fused(p, v, 0.5F);
  const float tail = exponential * (p * u);
  return {x < 0 ? tail : 1.0F - tail, exponential};
}

template <typename Kind>
void gelu(const Elements& work) {
  constexpr float kDensity = 0.398942280401F;  // 1 / √(2π)
  const auto* input = static_cast<const typename Kind::Element*>(work.input);
  const auto* by = static_cast<const typename Kind::Element*>(work.by);
  auto* to = static_cast<typename Kind::Element*>(work.to);
  if (by == nullptr) {
#pragma GCC ivdep
    for (Size i = 0; i < work.count; ++i) {
      const float x = Kind::load(input + i);
      Kind::store(to + i, x * normal_at(x).distribution);
    }
    return;
  }
#pragma GCC ivdep
  for (Size i = 0; i < work.count; ++i) {
    const float x = Kind::load(input + i);
    const Normal normal = normal_at(x);
    const float slope = normal.distribution + x * (normal.exponential * kDensity);
    Kind::store(to + i, Kind::load(by + i) * slope);
  }
}

// --- Dropout

template <typename Kind>
void scale(const Scaling& work) {
  const auto* from = static_cast<const typename Kind::Element*>(work.from);
  auto* to = static_cast<typename Kind::Element*>(work.to);
  const auto* const keep = reinterpret_cast<const unsigned char*>(work.keep);
  const float factor = work.factor;
  const Size count = work.count;
#pragma GCC ivdep
  for (Size i = 0; i < count; ++i)
    Kind::store(to + i, Kind::load(from + i) * (static_cast<float>(int{keep[i]}) * factor));
}

// --- The norm of a sum

template <typename X, typename Sum>
void add_row(const NormOfSum& work, Size row) {
  const Size begin = row * work.width, width = work.width;
  const float factor = work.factor;
  const auto* x = static_cast<const typename X::Element*>(work.x) + begin;
  const auto* residual = static_cast<const typename Sum::Element*>(work.residual) + begin;
  auto* sum = static_cast<typename Sum::Element*>(work.sum) + begin;
  if (work.keep == nullptr) {
#pragma GCC ivdep
    for (Size i = 0; i < width; ++i) Sum::store(sum + i, X::load(x + i) + Sum::load(residual + i));
    return;
  }
  const auto* const keep = reinterpret_cast<const unsigned char*>(work.keep) + begin;
#pragma GCC ivdep
  for (Size i = 0; i < width; ++i) {
    const float kept = X::rounded(X::load(x + i) * (static_cast<float>(int{keep[i]}) * factor));
    Sum::store(sum + i, kept + Sum::load(residual + i));
  }
}

template <typename Kind>
float mean_of(const typename Kind::Element* row, Size width) {
  Lanes sums{};
  Size i = 0;
  for (; i + kLanes <= width; i += kLanes) sums += load_lanes(row + i);
  float sum = sum_of(sums);
  for (; i < width; ++i) sum += Kind::load(row + i);
  return sum / static_cast<float>(width);
}

template <typename Kind>
float variance_of(const typename Kind::Element* row, Size width, float mean) {
  Lanes sums{};
  Size i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    const Lanes centred = load_lanes(row + i) - mean;
    sums += centred * centred;
  }
  float sum = sum_of(sums);
  for (; i < width; ++i) {
    const float centred = Kind::load(row + i) - mean;
    sum += centred * centred;
  }
  return sum / static_cast<float>(width);
}

template <typename X, typename Sum>
void norm_of_sum(const NormOfSum& work) {
  const auto* weight = static_cast<const typename Sum::Element*>(work.weight);
  const auto* bias = static_cast<const typename Sum::Element*>(work.bias);
  const Size width = work.width;
  for (Size row = 0; row < work.rows; ++row) {
    add_row<X, Sum>(work, row);
    const auto* sum = static_cast<const typename Sum::Element*>(work.sum) + row * width;
    auto* y = static_cast<typename Sum::Element*>(work.y) + row * width;
    const float mean = mean_of<Sum>(sum, width);
    const float variance = variance_of<Sum>(sum, width, mean);
    const float rstd = 1.0F / __builtin_sqrtf(variance + work.epsilon);
    work.mean[row] = mean;
    work.rstd[row] = rstd;
#pragma GCC ivdep
    for (Size i = 0; i < width; ++i) {
      const float normed = (Sum::load(sum + i) - mean) * rstd;
      Sum::store(y + i, fused(normed, Sum::load(weight + i), Sum::load(bias + i)));
    }
  }
}

// What the gradients of a row share: the means of by · weight, and of that times the normed row.
struct RowMeans {
  float plain, normed;
};

template <typename Kind>
RowMeans means_of(const NormOfSumBackward& work, Size row) {
  const Size begin = row * work.width, width = work.width;
  const auto* by = static_cast<const typename Kind::Element*>(work.by) + begin;
  const auto* sum = static_cast<const typename Kind::Element*>(work.sum) + begin;
  const auto* weight = static_cast<const typename Kind::Element*>(work.weight);
  const float mean = work.mean[row];
  Lanes plain{}, centred{};
  Size i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    const Lanes weighted = load_lanes(by + i) * load_lanes(weight + i);
    plain += weighted;
    centred += weighted * (load_lanes(sum + i) - mean);
  }
  RowMeans sums{sum_of(plain), sum_of(centred)};
  for (; i < width; ++i) {
    const float weighted = Kind::load(by + i) * Kind::load(weight + i);
    sums.plain += weighted;
    sums.normed += weighted * (Kind::load(sum + i) - mean);
  }
  const auto count = static_cast<float>(width);
  return {sums.plain / count, sums.normed * work.rstd[row] / count};
}

template <typename X, typename Sum>
void scale_row(const NormOfSumBackward& work, Size row) {
  const Size begin = row * work.width, width = work.width;
  const float factor = work.factor;
  const auto* from = static_cast<const typename Sum::Element*>(work.by_sum) + begin;
  auto* to = static_cast<typename X::Element*>(work.by_x) + begin;
  if (work.keep == nullptr) {
#pragma GCC ivdep
    for (Size i = 0; i < width; ++i) X::store(to + i, Sum::load(from + i));
    return;
  }
  const auto* const keep = reinterpret_cast<const unsigned char*>(work.keep) + begin;
#pragma GCC ivdep
  for (Size i = 0; i < width; ++i) {
    const float rounded = X::rounded(Sum::load(from + i));
    X::store(to + i, rounded * (static_cast<float>(int{keep[i]}) * factor));
  }
}

template <typename X, typename Sum>
void norm_of_sum_backward(const NormOfSumBackward& work) {
  const auto* weight = static_cast<const typename Sum::Element*>(work.weight);
  float *by_weight = work.by_weight, *by_bias = work.by_bias;
  const Size width = work.width;
  for (Size row = 0; row < work.rows; ++row) {
    const RowMeans means = means_of<Sum>(work, row);
    const float mean = work.mean[row], rstd = work.rstd[row];
    const auto* by = static_cast<const typename Sum::Element*>(work.by) + row * width;
    const auto* sum = static_cast<const typename Sum::Element*>(work.sum) + row * width;
    auto* by_sum = static_cast<typename Sum::Element*>(work.by_sum) + row * width;
#pragma GCC ivdep
    for (Size i = 0; i < width; ++i) {
      const float gradient = Sum::load(by + i);
      const float normed = (Sum::load(sum + i) - mean) * rstd;
      const float centred = gradient * Sum::load(weight + i) - means.plain - normed * means.normed;
      Sum::store(by_sum + i, centred * rstd);
      by_weight[i] += gradient * normed;
      by_bias[i] += gradient;
    }
    if (work.by_x != nullptr) scale_row<X, Sum>(work, row);
  }
}

// --- Random numbers

inline Word twisted(Word high, Word low, Word other) {
  const Word bits = (high & 0x80000000U) | (low & 0x7FFFFFFFU);
  return other ^ (bits >> 1) ^ ((0U - (low & 1U)) & 0x9908B0DFU);
}

void twist(Word* words) {
  constexpr Size kShift = 397, kEarly = kRound - kShift;
  const Word* const old = words;
  Word* const next = words + kRound;
#pragma GCC ivdep
  for (Size i = 0; i < kEarly; ++i) next[i] = twisted(old[i], old[i + 1], old[i + kShift]);
  // In two parts, each of which reads what the part before it wrote.
#pragma GCC ivdep
  for (Size i = kEarly; i < 2 * kEarly; ++i)
    next[i] = twisted(old[i], old[i + 1], next[i - kEarly]);
#pragma GCC ivdep
  for (Size i = 2 * kEarly; i + 1 < kRound; ++i)
    next[i] = twisted(old[i], old[i + 1], next[i - kEarly]);
  next[kRound - 1] = twisted(old[kRound - 1], next[0], next[kShift - 1]);
}

inline Word tempered(Word word) {
  word ^= word >> 11;
  word ^= (word << 7) & 0x9D2C5680U;
  word ^= (word << 15) & 0xEFC60000U;
  return word ^ (word >> 18);
}

void compare(const Word* words, Size count, Size limit, bool* keep) {
  constexpr Word kHighBits = (Word{1} << 21) - 1;
  const Word high = static_cast<Word>(limit >> 32), low = static_cast<Word>(limit);
#pragma GCC ivdep
  for (Size i = 0; i < count; ++i) {
    const Word first = tempered(words[2 * i]) & kHighBits, second = tempered(words[2 * i + 1]);
    const bool is_below = static_cast<bool>((first < high) | ((first == high) & (second < low)));
    keep[i] = is_below;
  }
}

constexpr KernelTable kTable{
    .gelu = {gelu<Float>, gelu<BFloat16>},
    .scale = {scale<Float>, scale<BFloat16>},
    .norm_of_sum = {norm_of_sum<Float, Float>, norm_of_sum<BFloat16, Float>,
                    norm_of_sum<BFloat16, BFloat16>},
    .norm_of_sum_backward = {norm_of_sum_backward<Float, Float>,
                             norm_of_sum_backward<BFloat16, Float>,
                             norm_of_sum_backward<BFloat16, BFloat16>},
    .twist = twist,
    .compare = compare};

}  // namespace
}  // namespace accelerate::detail::layer_kernels
