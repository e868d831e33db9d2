// Attention of one head over one sequence, forward and backward, as loops.h has its loops. Matrices
// are copied to scratch memory in fp32, padded to whole registers, and multiplied there.
#pragma once

#include "accelerate/transformers/models/layers/kernels/lanes.h"

namespace accelerate::detail::layer_kernels {
namespace {

constexpr Size kPad = 16;  // Rows and columns of scratch are multiples of it.

inline Size padded(Size size) {
  return (size + kPad - 1) / kPad * kPad;
}

// How many queries are computed together: their weights stay in the second-level cache.
inline Size block_of(const SequencePlace& place) {
  constexpr Size kWeights = 1 << 15;
  const Size fit = kWeights / padded(place.keys) / kPad * kPad, all = padded(place.queries);
  const Size block = fit < all ? fit : all;
  return block > kPad ? block : kPad;
}

Size attention_scratch(const SequencePlace& place, Size dim) {
  const Size width = padded(dim), keys = padded(place.keys);
  return 5 * keys * width + block_of(place) * (3 * width + 2 * keys) + keys;
}

// --- Matrices

struct Left {
  const float* data;
  Size row, column;  // Strides: a matrix by rows, or transposed.
};
struct Right {
  const float* data;
  Size row;
};
struct Product {
  float* data;
  Size row;
  bool adds;  // To what is there.
};

template <Size Rows, Size Registers>
[[gnu::always_inline]] inline void multiply_tile(const Left& a, const Right& b, Size depth,
                                                 const Product& c) {
  Lanes sums[Rows][Registers] = {};
  for (Size k = 0; k < depth; ++k) {
    Lanes right[Registers];
#pragma GCC unroll 8
    for (Size i = 0; i < Registers; ++i) right[i] = load_lanes(b.data + k * b.row + i * kLanes);
#pragma GCC unroll 8
    for (Size row = 0; row < Rows; ++row) {
      const Lanes left = Lanes{} + a.data[row * a.row + k * a.column];
#pragma GCC unroll 8
      for (Size i = 0; i < Registers; ++i) sums[row][i] = fused(left, right[i], sums[row][i]);
    }
  }
#pragma GCC unroll 8
  for (Size row = 0; row < Rows; ++row) {
#pragma GCC unroll 8
    for (Size i = 0; i < Registers; ++i) {
      float* const to = c.data + row * c.row + i * kLanes;
      if (c.adds) sums[row][i] += load_lanes(to);
      __builtin_memcpy(to, &sums[row][i], sizeof(Lanes));
    }
  }
}

template <Size Registers>
void multiply_columns(Size rows, Size depth, const Left& a, const Right& b, const Product& c) {
  constexpr Size kRows = kLanes == 16 ? 8 : 4;  // AVX-512 has twice as many registers.
  for (Size row = 0; row < rows; row += kRows)
    multiply_tile<kRows, Registers>({a.data + row * a.row, a.row, a.column}, b, depth,
                                    {c.data + row * c.row, c.row, c.adds});
}

// c = a · b, or c += a · b. `rows` and `columns` of c are multiples of kPad.
void multiply(Size rows, Size columns, Size depth, const Left& a, const Right& b,
              const Product& c) {
  Size column = 0;
  for (; column + 2 * kLanes <= columns; column += 2 * kLanes)
    multiply_columns<2>(rows, depth, a, {b.data + column, b.row}, {c.data + column, c.row, c.adds});
  for (; column < columns; column += kLanes)
    multiply_columns<1>(rows, depth, a, {b.data + column, b.row}, {c.data + column, c.row, c.adds});
}

inline void fill(float* to, Size count, float value) {
  for (Size i = 0; i < count; ++i) to[i] = value;
}

// Copies {rows, columns} to {columns, rows}; both are multiples of kPad.
void transpose(const float* from, Size rows, Size columns, float* to) {
  for (Size first = 0; first < rows; first += kPad)
    for (Size column = 0; column < columns; ++column)
      for (Size row = first; row < first + kPad; ++row)
        to[column * rows + row] = from[row * columns + column];
}

// --- Rows of tokens

template <typename Kind>
const typename Kind::Element* at(const HeadRows<const void*>& rows, Size token, Size head) {
  return static_cast<const typename Kind::Element*>(rows.data) + token * rows.token +
         head * rows.head;
}
template <typename Kind>
typename Kind::Element* at(const HeadRows<void*>& rows, Size token, Size head) {
  return static_cast<typename Kind::Element*>(rows.data) + token * rows.token + head * rows.head;
}

// Some tokens of a head.
struct TokenRange {
  Size head, first, count, dim;
};

// Copies {count, dim}, times `factor`, to {padded count, padded dim}, with zeros around it.
template <typename Kind>
void copy_rows(const HeadRows<const void*>& rows, const TokenRange& range, float factor,
               float* to) {
  const Size width = padded(range.dim);
  for (Size row = 0; row < range.count; ++row, to += width) {
    const auto* const from = at<Kind>(rows, range.first + row, range.head);
    for (Size i = 0; i < range.dim; ++i) to[i] = Kind::load(from + i) * factor;
    fill(to + range.dim, width - range.dim, 0);
  }
  fill(to, (padded(range.count) - range.count) * width, 0);
}

template <typename Kind>
void store_row(const float* from, Size dim, float factor, typename Kind::Element* to) {
#pragma GCC ivdep
  for (Size i = 0; i < dim; ++i) Kind::store(to + i, from[i] * factor);
}

// --- A row of weights

inline Size seen_by(const Attention& work, const SequencePlace& place, Size query) {
  return work.is_causal && query + 1 < place.keys ? query + 1 : place.keys;
}

// Which weights of a query dropout keeps; null without dropout.
inline const unsigned char* keep_of(const Attention& work, const SequencePlace& place, Size head,
                                    Size query) {
  if (work.keep == nullptr) return nullptr;
  return reinterpret_cast<const unsigned char*>(work.keep) + place.first_weight +
         (head * place.queries + query) * place.keys;
}

inline void drop(float* row, const unsigned char* keep, float factor, Size count) {
#pragma GCC ivdep
  for (Size i = 0; i < count; ++i) row[i] *= static_cast<float>(int{keep[i]}) * factor;
}

// scores → softcap · tanh(score / softcap). `slopes`, unless null, gets the derivatives.
inline void cap(float* row, Size count, float softcap, float* slopes) {
  const float inverse = 1 / softcap;
  if (slopes == nullptr) {
#pragma GCC ivdep
    for (Size i = 0; i < count; ++i) row[i] = softcap * tanh_of(row[i] * inverse);
    return;
  }
#pragma GCC ivdep
  for (Size i = 0; i < count; ++i) {
    const float share = tanh_of(row[i] * inverse);
    row[i] = softcap * share;
    slopes[i] = 1 - share * share;
  }
}

struct RowSum {
  float log_sum, inverse;
};

// scores → exp(score - largest) of the `seen` first, 0 of the others up to `width`.
RowSum exponentials(float* row, Size seen, Size width) {
  fill(row + seen, width - seen, -__builtin_inff());
  const float largest = largest_of(row, width);
#pragma GCC ivdep
  for (Size i = 0; i < width; ++i) row[i] = exp_of(row[i] - largest);
  const float sum = sum_of<Float>(row, width);
  return {largest + __builtin_logf(sum), 1 / sum};
}

// In: scores, and gradients of the weights after dropout. Out: the weights after dropout, and the
// gradients of scores.
void differentiate(float* weights, float* by, Size seen, Size width, float log_sum,
                   const unsigned char* keep, float factor) {
  fill(weights + seen, width - seen, -__builtin_inff());
  fill(by + seen, width - seen, 0);
  if (keep != nullptr) drop(by, keep, factor, seen);
#pragma GCC ivdep
  for (Size i = 0; i < width; ++i) weights[i] = exp_of(weights[i] - log_sum);
  Lanes sums{};
  for (Size i = 0; i < width; i += kLanes)
    sums = fused(load_lanes(weights + i), load_lanes(by + i), sums);
  const float sum = sum_of(sums);
#pragma GCC ivdep
  for (Size i = 0; i < width; ++i) by[i] = weights[i] * (by[i] - sum);
  if (keep != nullptr) drop(weights, keep, factor, seen);
}

inline void multiply_by(float* row, const float* factors, Size count) {
#pragma GCC ivdep
  for (Size i = 0; i < count; ++i) row[i] *= factors[i];
}

// --- A head

// Hands out parts of the scratch memory.
struct Scratch {
  float* next;
  float* take(Size rows, Size columns) {
    float* const taken = next;
    next += rows * columns;
    return taken;
  }
};

template <typename Kind>
void attend(const Attention& work, const SequencePlace& place, Size head, float* memory) {
  const Size dim = work.dim, width = padded(dim), keys = padded(place.keys),
             block = block_of(place);
  const TokenRange all_keys{head / work.heads_of_a_key, place.first_key, place.keys, dim};
  Scratch scratch{memory};
  float* const key_columns = scratch.take(width, keys);
  float* const value = scratch.take(keys, width);
  float* const query = scratch.take(block, width);
  float* const weights = scratch.take(block, keys);
  float* const output = scratch.take(block, width);
  float* const inverses = scratch.take(block, 1);
  copy_rows<Kind>(work.key, all_keys, 1, value);
  transpose(value, keys, width, key_columns);
  copy_rows<Kind>(work.value, all_keys, 1, value);
  for (Size first = 0; first < place.queries; first += block) {
    const Size left = place.queries - first, count = left < block ? left : block;
    const Size columns = padded(seen_by(work, place, first + count - 1));
    const Size token = place.first_query + first;
    copy_rows<Kind>(work.query, {head, token, count, dim}, work.scale, query);
    multiply(padded(count), columns, dim, {query, width, 1}, {key_columns, keys},
             {weights, keys, false});
    for (Size i = 0; i < count; ++i) {
      float* const row = weights + i * keys;
      const Size seen = seen_by(work, place, first + i);
      if (work.softcap > 0) cap(row, seen, work.softcap, /*slopes=*/nullptr);
      const RowSum sum = exponentials(row, seen, columns);
      if (const auto* const keep = keep_of(work, place, head, first + i))
        drop(row, keep, work.factor, seen);
      work.log_sums[(token + i) * work.heads + head] = sum.log_sum;
      inverses[i] = sum.inverse;
    }
    multiply(padded(count), width, columns, {weights, keys, 1}, {value, width},
             {output, width, false});
    for (Size i = 0; i < count; ++i)
      store_row<Kind>(output + i * width, dim, inverses[i], at<Kind>(work.output, token + i, head));
  }
}

// What the heads of queries share that read one head of keys and values.
struct KeyHead {
  const float *key, *key_columns, *value_columns;
  float *by_key, *by_value;
};

template <typename Kind>
void differentiate_head(const Attention& work, const SequencePlace& place, Size head,
                        const KeyHead& shared, Scratch scratch) {
  const Size dim = work.dim, width = padded(dim), keys = padded(place.keys),
             block = block_of(place);
  float* const query = scratch.take(block, width);
  float* const by = scratch.take(block, width);
  float* const by_query = scratch.take(block, width);
  float* const weights = scratch.take(block, keys);
  float* const by_scores = scratch.take(block, keys);
  float* const slopes = scratch.take(keys, 1);
  for (Size first = 0; first < place.queries; first += block) {
    const Size left = place.queries - first, count = left < block ? left : block;
    const Size rows = padded(count), columns = padded(seen_by(work, place, first + count - 1));
    const Size token = place.first_query + first;
    copy_rows<Kind>(work.query, {head, token, count, dim}, work.scale, query);
    copy_rows<Kind>(work.by, {head, token, count, dim}, 1, by);
    multiply(rows, columns, dim, {query, width, 1}, {shared.key_columns, keys},
             {weights, keys, false});
    multiply(rows, columns, dim, {by, width, 1}, {shared.value_columns, keys},
             {by_scores, keys, false});
    for (Size i = 0; i < count; ++i) {
      float *const row = weights + i * keys, *const by_row = by_scores + i * keys;
      const Size seen = seen_by(work, place, first + i);
      if (work.softcap > 0) cap(row, seen, work.softcap, slopes);
      differentiate(row, by_row, seen, columns, work.log_sums[(token + i) * work.heads + head],
                    keep_of(work, place, head, first + i), work.factor);
      if (work.softcap > 0) multiply_by(by_row, slopes, seen);
    }
    multiply(columns, width, count, {weights, 1, keys}, {by, width},
             {shared.by_value, width, true});
    multiply(columns, width, count, {by_scores, 1, keys}, {query, width},
             {shared.by_key, width, true});
    multiply(rows, width, columns, {by_scores, keys, 1}, {shared.key, width},
             {by_query, width, false});
    for (Size i = 0; i < count; ++i)
      store_row<Kind>(by_query + i * width, dim, work.scale,
                      at<Kind>(work.query_gradient, token + i, head));
  }
}

template <typename Kind>
void attend_backward(const Attention& work, const SequencePlace& place, Size key_head,
                     float* memory) {
  const Size dim = work.dim, width = padded(dim), keys = padded(place.keys);
  const TokenRange all_keys{key_head, place.first_key, place.keys, dim};
  Scratch scratch{memory};
  float* const key = scratch.take(keys, width);
  float* const key_columns = scratch.take(width, keys);
  float* const value_columns = scratch.take(width, keys);
  float* const by_key = scratch.take(keys, width);
  float* const by_value = scratch.take(keys, width);
  copy_rows<Kind>(work.value, all_keys, 1, key);
  transpose(key, keys, width, value_columns);
  copy_rows<Kind>(work.key, all_keys, 1, key);
  transpose(key, keys, width, key_columns);
  fill(by_key, keys * width, 0);
  fill(by_value, keys * width, 0);
  const Size first_head = key_head * work.heads_of_a_key;
  for (Size head = first_head; head < first_head + work.heads_of_a_key; ++head)
    differentiate_head<Kind>(work, place, head, {key, key_columns, value_columns, by_key, by_value},
                             scratch);
  for (Size i = 0; i < place.keys; ++i) {
    const Size token = place.first_key + i;
    store_row<Kind>(by_key + i * width, dim, 1, at<Kind>(work.key_gradient, token, key_head));
    store_row<Kind>(by_value + i * width, dim, 1, at<Kind>(work.value_gradient, token, key_head));
  }
}

}  // namespace
}  // namespace accelerate::detail::layer_kernels
