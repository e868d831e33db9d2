// The loops of kernel_table.h, for one instruction set: kernels_<set>.cpp includes this file and is
// compiled with the flags of that set. Everything is in an anonymous namespace, and no header with
// inline functions is included. Otherwise the linker could use a function with AVX instructions in
// the baseline.
#pragma once

#include "accelerate/transformers/models/layers/kernels/attention_loops.h"
#include "accelerate/transformers/models/layers/kernels/kernel_table.h"
#include "accelerate/transformers/models/layers/kernels/lanes.h"

namespace accelerate::detail::layer_kernels {
namespace {

// --- GELU: x · Φ(x)

// Φ(-|x|), where Φ is the normal distribution, and exp(-x²/2).
struct Tail {
  float share, exponential;
};

// The share is the exponential times Mills' ratio, which is a smooth function of
// u = 1 / (1 + c|x|): u times a polynomial in 1 - u. The
// polynomials are minimax fits of relative error 3e-8, or 8e-6 if that is enough.
template <bool kIsExact>
[[gnu::always_inline]] inline Tail tail_at(float x) {
  constexpr float kHalfLog2E = 0.72134752F, kFactor = kIsExact ? 0.35F : 0.3F;
  const float given = x * (x * -kHalfLog2E);
  const float power = kLeastPower > given ? kLeastPower : given;
  const float shifted = power + kRounding;
  const float exponential = power_of_two<kIsExact>(shifted, power - (shifted - kRounding));
  const float u = 1.0F / fused(__builtin_fabsf(x), kFactor, 1.0F), v = 1.0F - u;
  if constexpr (kIsExact) {
    const float p = polynomial(v, -0.02912581619F, 0.08913451277F, -0.06392289086F, -0.0161705866F,
                               -0.06414139849F, 0.1026341962F, 0.2610455748F, -0.6398320059F, 0.5F);
    return {exponential * (p * u), exponential};
  }
  const float p = polynomial(v, 0.07750712699F, -0.1702669005F, -0.07564815277F, 0.6184296056F,
                             -0.8299332103F, 0.5F);
  return {exponential * (p * u), exponential};
}

template <typename Kind>
void gelu_backward(const GeluBackward& work) {
  constexpr float kDensity = 0.398942280401F;  // 1 / √(2π)
  constexpr bool kIsExact = sizeof(typename Kind::Element) == sizeof(float);
  const auto* input = static_cast<const typename Kind::Element*>(work.input);
  const auto* by = static_cast<const typename Kind::Element*>(work.by);
  auto* to = static_cast<typename Kind::Element*>(work.to);
  const Size count = work.count;
#pragma GCC ivdep
  for (Size i = 0; i < count; ++i) {
    const float x = Kind::load(input + i);
    const Tail tail = tail_at<kIsExact>(x);
    const float below = fused(-__builtin_fabsf(x) * kDensity, tail.exponential, tail.share);
    Kind::store(to + i, Kind::load(by + i) * (x < 0 ? below : 1.0F - below));
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
    const float mean = sum_of<Sum>(sum, width) / static_cast<float>(width);
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

// --- Softmax

// Reads the row from memory once: what comes second finds its part in the first-level cache. Adds
// the parts up in fp64, so that a hundred thousand classes cost no precision.
LogSum log_sum_exp(const Logits& logits) {
  constexpr Size kPart = 2048;
  float powers[kPart], largest = -__builtin_inff();
  double sum = 0;
  for (Size begin = 0; begin < logits.count; begin += kPart) {
    const float* const part = logits.values + begin;
    const Size count = logits.count - begin < kPart ? logits.count - begin : kPart;
    const float most = largest_of(part, count);
    if (most > largest) {
      sum *= exp_of(largest - most);
      largest = most;
    }
    if (most == -__builtin_inff()) continue;  // They add nothing, and less infinity is no number.
    for (Size i = 0; i < count; ++i) powers[i] = exp_of(part[i] - largest);
    sum += sum_of<Float>(powers, count);
  }
  return {largest, static_cast<float>(__builtin_log(sum))};
}

void scaled_softmax(const ScaledSoftmax& work) {
  const float *values = work.logits.values, largest = work.sum.largest, rest = work.sum.rest;
  float* const to = work.to;
  const float by = work.by;
  const Size count = work.logits.count;
#pragma GCC ivdep
  for (Size i = 0; i < count; ++i) to[i] = exp_of(values[i] - largest - rest) * by;
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
    .gelu_backward = {gelu_backward<Float>, gelu_backward<BFloat16>},
    .scale = {scale<Float>, scale<BFloat16>},
    .norm_of_sum = {norm_of_sum<Float, Float>, norm_of_sum<BFloat16, Float>,
                    norm_of_sum<BFloat16, BFloat16>},
    .norm_of_sum_backward = {norm_of_sum_backward<Float, Float>,
                             norm_of_sum_backward<BFloat16, Float>,
                             norm_of_sum_backward<BFloat16, BFloat16>},
    .log_sum_exp = log_sum_exp,
    .scaled_softmax = scaled_softmax,
    .attention_scratch = attention_scratch,
    .attend = {attend<Float>, attend<BFloat16>},
    .attend_backward = {attend_backward<Float>, attend_backward<BFloat16>},
    .twist = twist,
    .compare = compare};

}  // namespace
}  // namespace accelerate::detail::layer_kernels
