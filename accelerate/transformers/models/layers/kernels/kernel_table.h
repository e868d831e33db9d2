// The interface between the layers and their loops, which are compiled once per instruction set. It
// is plain data: a type with inline functions could be compiled for one instruction set and linked
// into the code of another.
#pragma once

namespace accelerate::detail::layer_kernels {

using Size = unsigned long;
using Word = unsigned int;

/// to[i] = by[i] · the slope of GELU at input[i]
struct GeluBackward {
  const void *input, *by;
  void* to;
  Size count;
};

/// to[i] = from[i] · (keep[i] ? factor : 0)
struct Scaling {
  const void* from;
  const bool* keep;
  float factor;
  void* to;
  Size count;
};

/// Rows of y = norm(x · (keep ? factor : 0) + residual) · weight + bias. Without `keep` x is added
/// as it is. `mean` and `rstd`, the reciprocal of the deviation, have a number for each row.
struct NormOfSum {
  const void *x, *residual, *weight, *bias;
  const bool* keep;  ///< Or null.
  float factor, epsilon;
  void *sum, *y;
  float *mean, *rstd;
  Size rows, width;
};

/// The gradients of NormOfSum. Adds to by_weight and by_bias, which have fp32.
struct NormOfSumBackward {
  const void *by, *sum, *weight;
  const float *mean, *rstd;
  const bool* keep;  ///< Or null.
  float factor;
  void *by_sum, *by_x;  ///< by_x is null where it equals by_sum.
  float *by_weight, *by_bias;
  Size rows, width;
};

/// A row of logits, fp32.
struct Logits {
  const float* values;
  Size count;
};

/// The logarithm of a sum of exponentials: of the largest, and of the sum divided by the largest.
struct LogSum {
  float largest, rest;
};

/// to[i] = exp(logits[i] - sum) · by
struct ScaledSoftmax {
  Logits logits;
  LogSum sum;
  float by;
  float* to;
};

/// Values of tokens, {tokens, heads, dim}; the values of a token's head lie side by side.
template <typename Pointer>
struct HeadRows {
  Pointer data;
  Size token, head;  ///< Strides, in elements.
};

/// Where a sequence's queries and keys lie among the tokens.
struct SequencePlace {
  Size first_query, queries, first_key, keys;
  Size first_weight = 0;  ///< In `keep` of Attention.
};

/// softmax(query · keyᵀ · scale) · value, its weights dropped. Everything is computed in fp32.
struct Attention {
  HeadRows<const void*> query, key, value;
  Size heads, heads_of_a_key, dim;
  float scale;
  float softcap;   ///< Scores become softcap · tanh(score / softcap); 0: they stay.
  bool is_causal;  ///< Only for as many queries as keys.
  const bool*
      keep;         ///< {heads, queries, keys} from first_weight on, sequence by sequence; or null.
  float factor;     ///< Of weights that are kept.
  float* log_sums;  ///< {queries, heads}: log Σ exp(scores); attend() writes it.
  HeadRows<void*> output;  ///< attend() writes it.
  HeadRows<const void*> by;
  HeadRows<void*> query_gradient, key_gradient, value_gradient;  ///< For attend_backward().
};

/// The words of a round of the generator.
inline constexpr Size kRound = 624;

/// Computed in fp32 whatever the type, and rounded once.
enum ElementType { kFloat32, kBFloat16, kNumElementTypes };
/// The types of x, and of everything else that a norm reads and writes.
enum NormTypes { kBothFloat32, kBFloat16AndFloat32, kBothBFloat16, kNumNormTypes };

struct KernelTable {
  void (*gelu_backward[kNumElementTypes])(const GeluBackward&);
  void (*scale[kNumElementTypes])(const Scaling&);
  void (*norm_of_sum[kNumNormTypes])(const NormOfSum&);
  void (*norm_of_sum_backward[kNumNormTypes])(const NormOfSumBackward&);
  LogSum (*log_sum_exp)(const Logits&);
  void (*scaled_softmax)(const ScaledSoftmax&);
  /// The number of floats that attend() and attend_backward() work in, for one sequence.
  Size (*attention_scratch)(const SequencePlace&, Size dim);
  /// The output of a head of queries.
  void (*attend[kNumElementTypes])(const Attention&, const SequencePlace&, Size head, float*);
  /// The gradients of a head of keys and values, and of the heads of queries that read it.
  void (*attend_backward[kNumElementTypes])(const Attention&, const SequencePlace&, Size head,
                                            float*);
  /// Makes the `kRound` words after words[0 … kRound). Source: Matsumoto and Nishimura 1998, MT19937.
  void (*twist)(Word* words);
  /// Sets keep[i] to whether the number of 53 bits that words 2i and 2i + 1 make is below `limit`.
  void (*compare)(const Word* words, Size count, Size limit, bool* keep);
};

extern const KernelTable kernels_baseline;
extern const KernelTable kernels_avx2;    ///< x86-64 only.
extern const KernelTable kernels_avx512;  ///< x86-64 only.

}  // namespace accelerate::detail::layer_kernels
