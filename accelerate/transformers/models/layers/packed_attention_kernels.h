// Attention of packed sequences on a CPU: forward and backward of one head over one sequence.
#pragma once

#include <cstdint>

#include "accelerate/base/machine/hardware.h"

namespace accelerate::detail {

/// Values of tokens, {tokens, heads, dim}; the values of a token's head lie side by side.
template <typename T>
struct HeadRows {
  T* data = nullptr;
  std::int64_t token = 0, head = 0;  ///< Strides, in elements.
};

/// Where a sequence's queries and keys lie among the tokens.
struct SequencePlace {
  std::int64_t first_query = 0, queries = 0, first_key = 0, keys = 0;
  std::int64_t first_weight = 0;  ///< In the mask of dropout: {heads, queries, keys} from here on.
};

/// T: float or c10::BFloat16. Everything is computed in fp32.
template <typename T>
struct AttentionOperands {
  HeadRows<const T> query, key, value;
  std::int64_t heads = 0, heads_of_a_key = 1, dim = 0;
  float scale = 1;
  bool is_causal = false;      ///< Only for as many queries as keys.
  const bool* keep = nullptr;  ///< The weights that dropout keeps; null without dropout.
  float factor = 1;            ///< Of weights that are kept.
  float* log_sums = nullptr;   ///< {queries of all sequences, heads}: log Σ exp(scores).
  // forward() writes this one.
  HeadRows<T> output = {};
  // backward() reads `by`, the gradient of the output, and writes the others.
  HeadRows<const T> by = {};
  HeadRows<T> query_gradient = {}, key_gradient = {}, value_gradient = {};
};

/// Returns the number of floats that a kernel works in.
[[nodiscard]] std::int64_t attention_scratch(const SequencePlace& place, std::int64_t dim);

/// Computes the output of a head.
template <typename T>
void attend_forward(const AttentionOperands<T>& operands, const SequencePlace& place,
                    std::int64_t head, float* scratch, Registers registers);

/// Computes the gradients of a head of keys and values, and of all heads of queries that read it.
template <typename T>
void attend_backward(const AttentionOperands<T>& operands, const SequencePlace& place,
                     std::int64_t key_head, float* scratch, Registers registers);

}  // namespace accelerate::detail
