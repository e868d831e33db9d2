#include "accelerate/transformers/models/layers/packed_attention_kernels.h"

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

// The functions below are compiled once for each kind of registers, inside their callers.
#pragma GCC diagnostic ignored "-Wpsabi"
#define ACCELERATE_INSIDE inline __attribute__((always_inline))

namespace accelerate::detail {
namespace {

template <int N>
struct Register {
  using Floats __attribute__((vector_size(N * 4))) = float;
  using Bits __attribute__((vector_size(N * 4))) = std::int32_t;
  using Halves __attribute__((vector_size(N * 2))) = std::uint16_t;
  using Bytes __attribute__((vector_size(N))) = std::int8_t;
};
template <int N>
using Floats = typename Register<N>::Floats;
template <int N>
using Bits = typename Register<N>::Bits;

constexpr std::int64_t kPad = 16;  // Rows and columns of scratch are multiples of it.

constexpr std::int64_t padded(std::int64_t size) {
  return (size + kPad - 1) / kPad * kPad;
}

// How many queries are computed together: their weights stay in the second cache.
constexpr std::int64_t block_of(std::int64_t queries, std::int64_t keys) {
  constexpr std::int64_t kWeights = 1 << 15;
  return std::max(kPad, std::min(kWeights / padded(keys) / kPad * kPad, padded(queries)));
}

template <typename V, typename T>
ACCELERATE_INSIDE V load_as(const T* from) {
  V to;
  std::memcpy(&to, from, sizeof to);
  return to;
}

template <int N, typename T>
ACCELERATE_INSIDE Floats<N> widened(const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    return load_as<Floats<N>>(from);
  } else {
    const auto halves = load_as<typename Register<N>::Halves>(from);
    return reinterpret_cast<Floats<N>>(__builtin_convertvector(halves, Bits<N>) << 16);
  }
}

template <int N, typename T>
ACCELERATE_INSIDE void store_narrow(const Floats<N>& value, T* to) {
  if constexpr (std::is_same_v<T, float>) {
    std::memcpy(to, &value, sizeof value);
  } else {
    const auto bits = reinterpret_cast<Bits<N>>(value);
    const Bits<N> even = bits + 0x7fff + ((bits >> 16) & 1);
    const Bits<N> narrow = (value != value ? Bits<N>{} + 0x7fc0 : (even >> 16) & 0xffff);
    const auto halves = __builtin_convertvector(narrow, typename Register<N>::Halves);
    std::memcpy(to, &halves, sizeof halves);
  }
}

// exp(x) for x that is at most a little above 0; 0 below -87. Error: 1 ulp and a half. Source: the
// polynomial of Moshier's Cephes library.
template <int N>
ACCELERATE_INSIDE Floats<N> exp_of(const Floats<N>& x) {
  constexpr float kLeast = -87;
  const Floats<N> from = x < kLeast ? Floats<N>{} + kLeast : x;
  constexpr float kRound = 12582912;  // 1.5 · 2²³: the sum's last bits are a whole number.
  const Floats<N> shifted = from * 1.44269504F + kRound, whole = shifted - kRound;
  const Floats<N> r = from - whole * 0.693359375F + whole * 2.12194440e-4F;
  Floats<N> sum = r * 1.9875691500e-4F + 1.3981999507e-3F;
  sum = sum * r + 8.3334519073e-3F;
  sum = sum * r + 4.1665795894e-2F;
  sum = sum * r + 1.6666665459e-1F;
  sum = sum * r + 5.0000001201e-1F;
  sum = sum * r * r + r + 1;
  const Bits<N> scaled =
      reinterpret_cast<Bits<N>>(sum) + (reinterpret_cast<Bits<N>>(shifted) << 23);
  return x < kLeast ? Floats<N>{} : reinterpret_cast<Floats<N>>(scaled);
}

template <int N>
ACCELERATE_INSIDE float sum_of_floats(const Floats<N>& values) {
  float sum = 0;
  for (int i = 0; i < N; ++i) sum += values[i];
  return sum;
}

// A matrix in memory, by rows or transposed.
struct Left {
  const float* data;
  std::int64_t row, column;  // Strides.
};
struct Right {
  const float* data;
  std::int64_t row;
};

// c = a · b, or c += a · b, of a tile of c.
template <int N, int Rows, int Registers>
ACCELERATE_INSIDE void multiply_tile(const Left& a, const Right& b, std::int64_t depth, float* c,
                                     std::int64_t c_row, bool adds) {
  Floats<N> sums[Rows][Registers] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    Floats<N> right[Registers];
#pragma GCC unroll 8
    for (int i = 0; i < Registers; ++i) right[i] = load_as<Floats<N>>(b.data + k * b.row + i * N);
#pragma GCC unroll 8
    for (int row = 0; row < Rows; ++row) {
      const float left = a.data[row * a.row + k * a.column];
#pragma GCC unroll 8
      for (int i = 0; i < Registers; ++i) sums[row][i] += left * right[i];
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 8
    for (int i = 0; i < Registers; ++i) {
      float* to = c + row * c_row + i * N;
      if (adds) sums[row][i] += load_as<Floats<N>>(to);
      std::memcpy(to, &sums[row][i], sizeof sums[row][i]);
    }
  }
}

// c = a · b, or c += a · b. Rows and columns are multiples of kPad.
template <int N>
ACCELERATE_INSIDE void multiply(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                const Left& a, const Right& b, float* c, std::int64_t c_row,
                                bool adds) {
  constexpr int kRows = N == 16 ? 8 : 4;
  std::int64_t column = 0;
  for (; column + 2 * N <= columns; column += 2 * N)
    for (std::int64_t row = 0; row < rows; row += kRows)
      multiply_tile<N, kRows, 2>({a.data + row * a.row, a.row, a.column}, {b.data + column, b.row},
                                 depth, c + row * c_row + column, c_row, adds);
  for (; column < columns; column += N)
    for (std::int64_t row = 0; row < rows; row += kRows)
      multiply_tile<N, kRows, 1>({a.data + row * a.row, a.row, a.column}, {b.data + column, b.row},
                                 depth, c + row * c_row + column, c_row, adds);
}

// Copies {count, dim} to {padded rows, padded dim} of fp32, zeros around it.
template <int N, typename T>
ACCELERATE_INSIDE void copy_rows(const T* from, std::int64_t stride, std::int64_t count,
                                 std::int64_t dim, float factor, float* to) {
  const std::int64_t width = padded(dim);
  for (std::int64_t row = 0; row < count; ++row, from += stride, to += width) {
    std::int64_t i = 0;
    for (; i + N <= dim; i += N) {
      const Floats<N> values = widened<N>(from + i) * factor;
      std::memcpy(to + i, &values, sizeof values);
    }
    for (; i < dim; ++i) to[i] = static_cast<float>(from[i]) * factor;
    for (; i < width; ++i) to[i] = 0;
  }
  std::fill(to, to + (padded(count) - count) * width, 0.0F);
}

// Copies {rows, columns} to {columns, rows}; both are multiples of kPad.
ACCELERATE_INSIDE void transpose_rows(const float* from, std::int64_t rows, std::int64_t columns,
                                      float* to) {
  for (std::int64_t first = 0; first < rows; first += kPad)
    for (std::int64_t column = 0; column < columns; ++column)
      for (std::int64_t row = first; row < first + kPad; ++row)
        to[column * rows + row] = from[row * columns + column];
}

template <int N, typename T>
ACCELERATE_INSIDE void store_row(const float* from, std::int64_t dim, float factor, T* to) {
  std::int64_t i = 0;
  for (; i + N <= dim; i += N) store_narrow<N>(load_as<Floats<N>>(from + i) * factor, to + i);
  for (; i < dim; ++i) to[i] = static_cast<T>(from[i] * factor);
}

// 1 where dropout keeps a weight, 0 elsewhere and behind the row's `seen` weights.
template <int N>
ACCELERATE_INSIDE Floats<N> kept_of(const bool* keep, std::int64_t first, std::int64_t seen) {
  typename Register<N>::Bytes bytes{};
  if (first + N <= seen) {
    std::memcpy(&bytes, keep + first, N);
  } else if (first < seen) {
    std::memcpy(&bytes, keep + first, static_cast<std::size_t>(seen - first));
  }
  return __builtin_convertvector(__builtin_convertvector(bytes, Bits<N>), Floats<N>);
}

// How many keys a query sees.
template <typename T>
ACCELERATE_INSIDE std::int64_t seen_by(const AttentionOperands<T>& o, const SequencePlace& place,
                                       std::int64_t query) {
  return o.is_causal ? std::min(query + 1, place.keys) : place.keys;
}

template <typename T>
const bool* keep_of(const AttentionOperands<T>& o, const SequencePlace& place, std::int64_t head,
                    std::int64_t query) {
  if (o.keep == nullptr) return nullptr;
  return o.keep + place.first_weight + (head * place.queries + query) * place.keys;
}

template <typename T>
ACCELERATE_INSIDE T* rows_of(const HeadRows<T>& rows, std::int64_t token, std::int64_t head) {
  return rows.data + token * rows.token + head * rows.head;
}

// Hands out parts of the scratch memory.
struct Scratch {
  float* next;
  float* take(std::int64_t rows, std::int64_t columns) {
    float* taken = next;
    next += rows * columns;
    return taken;
  }
};

struct RowSum {
  float log_sum, inverse;
};

// scores → exp(score - greatest), times 1 or 0 of dropout. Keys from `seen` on get 0.
template <int N>
ACCELERATE_INSIDE RowSum exponentials(float* row, std::int64_t seen, std::int64_t width,
                                      const bool* keep) {
  std::fill(row + seen, row + width, -std::numeric_limits<float>::infinity());
  Floats<N> greatest = load_as<Floats<N>>(row);
  for (std::int64_t i = N; i < width; i += N) {
    const auto values = load_as<Floats<N>>(row + i);
    greatest = values > greatest ? values : greatest;
  }
  float most = greatest[0];
  for (int i = 1; i < N; ++i) most = greatest[i] > most ? greatest[i] : most;
  Floats<N> sums{};
  for (std::int64_t i = 0; i < width; i += N) {
    Floats<N> values = exp_of<N>(load_as<Floats<N>>(row + i) - most);
    sums += values;
    if (keep != nullptr) values *= kept_of<N>(keep, i, seen);
    std::memcpy(row + i, &values, sizeof values);
  }
  const float sum = sum_of_floats<N>(sums);
  return {most + std::log(sum), 1 / sum};
}

template <int N, typename T>
ACCELERATE_INSIDE void forward(const AttentionOperands<T>& o, const SequencePlace& place,
                               std::int64_t head, float* memory) {
  const std::int64_t dim = o.dim, width = padded(dim), keys = padded(place.keys);
  const std::int64_t block = block_of(place.queries, place.keys);
  Scratch scratch{memory};
  float* const key = scratch.take(keys, width);
  float* const key_columns = scratch.take(width, keys);
  float* const query = scratch.take(block, width);
  float* const weights = scratch.take(block, keys);
  float* const output = scratch.take(block, width);
  float* const inverses = scratch.take(block, 1);
  copy_rows<N>(rows_of(o.key, place.first_key, head / o.heads_of_a_key), o.key.token, place.keys,
               dim, 1, key);
  transpose_rows(key, keys, width, key_columns);
  float* const value = key;  // Its values are in key_columns now.
  copy_rows<N>(rows_of(o.value, place.first_key, head / o.heads_of_a_key), o.value.token,
               place.keys, dim, 1, value);
  for (std::int64_t first = 0; first < place.queries; first += block) {
    const std::int64_t count = std::min(block, place.queries - first);
    const std::int64_t rows = padded(count);
    const std::int64_t columns = padded(seen_by(o, place, first + count - 1));
    const std::int64_t token = place.first_query + first;
    copy_rows<N>(rows_of(o.query, token, head), o.query.token, count, dim, o.scale, query);
    multiply<N>(rows, columns, dim, {query, width, 1}, {key_columns, keys}, weights, keys, false);
    for (std::int64_t row = 0; row < count; ++row) {
      const auto [log_sum, inverse] =
          exponentials<N>(weights + row * keys, seen_by(o, place, first + row), columns,
                          keep_of(o, place, head, first + row));
      o.log_sums[(token + row) * o.heads + head] = log_sum;
      inverses[row] = inverse * o.factor;
    }
    multiply<N>(rows, width, columns, {weights, keys, 1}, {value, width}, output, width, false);
    for (std::int64_t row = 0; row < count; ++row)
      store_row<N>(output + row * width, dim, inverses[row], rows_of(o.output, token + row, head));
  }
}

// What the gradients of a row of weights need. In: scores and gradients of the weights. Out: the
// weights after dropout, and the gradients of scores.
template <int N>
ACCELERATE_INSIDE void differentiate(float* weights, float* by_weights, std::int64_t seen,
                                     std::int64_t width, const bool* keep, float factor,
                                     float log_sum) {
  std::fill(weights + seen, weights + width, -std::numeric_limits<float>::infinity());
  std::fill(by_weights + seen, by_weights + width, 0.0F);
  Floats<N> sums{};
  for (std::int64_t i = 0; i < width; i += N) {
    const auto weight = exp_of<N>(load_as<Floats<N>>(weights + i) - log_sum);
    auto by = load_as<Floats<N>>(by_weights + i);
    if (keep != nullptr) by *= kept_of<N>(keep, i, seen) * factor;
    sums += weight * by;
    std::memcpy(weights + i, &weight, sizeof weight);
    std::memcpy(by_weights + i, &by, sizeof by);
  }
  const float sum = sum_of_floats<N>(sums);
  for (std::int64_t i = 0; i < width; i += N) {
    auto weight = load_as<Floats<N>>(weights + i);
    const Floats<N> by_scores = weight * (load_as<Floats<N>>(by_weights + i) - sum);
    if (keep != nullptr) weight *= kept_of<N>(keep, i, seen) * factor;
    std::memcpy(weights + i, &weight, sizeof weight);
    std::memcpy(by_weights + i, &by_scores, sizeof by_scores);
  }
}

template <int N, typename T>
ACCELERATE_INSIDE void backward(const AttentionOperands<T>& o, const SequencePlace& place,
                                std::int64_t key_head, float* memory) {
  const std::int64_t dim = o.dim, width = padded(dim), keys = padded(place.keys);
  const std::int64_t block = block_of(place.queries, place.keys);
  Scratch scratch{memory};
  float* const key = scratch.take(keys, width);
  float* const key_columns = scratch.take(width, keys);
  float* const value_columns = scratch.take(width, keys);
  float* const by_key = scratch.take(keys, width);
  float* const by_value = scratch.take(keys, width);
  float* const query = scratch.take(block, width);
  float* const by = scratch.take(block, width);
  float* const by_query = scratch.take(block, width);
  float* const weights = scratch.take(block, keys);
  float* const by_weights = scratch.take(block, keys);
  copy_rows<N>(rows_of(o.value, place.first_key, key_head), o.value.token, place.keys, dim, 1, key);
  transpose_rows(key, keys, width, value_columns);
  copy_rows<N>(rows_of(o.key, place.first_key, key_head), o.key.token, place.keys, dim, 1, key);
  transpose_rows(key, keys, width, key_columns);
  std::fill(by_key, by_key + keys * width, 0.0F);
  std::fill(by_value, by_value + keys * width, 0.0F);
  const std::int64_t first_head = key_head * o.heads_of_a_key;
  for (std::int64_t head = first_head; head < first_head + o.heads_of_a_key; ++head) {
    for (std::int64_t first = 0; first < place.queries; first += block) {
      const std::int64_t count = std::min(block, place.queries - first);
      const std::int64_t rows = padded(count);
      const std::int64_t columns = padded(seen_by(o, place, first + count - 1));
      const std::int64_t token = place.first_query + first;
      copy_rows<N>(rows_of(o.query, token, head), o.query.token, count, dim, o.scale, query);
      copy_rows<N>(rows_of(o.by, token, head), o.by.token, count, dim, 1, by);
      multiply<N>(rows, columns, dim, {query, width, 1}, {key_columns, keys}, weights, keys, false);
      multiply<N>(rows, columns, dim, {by, width, 1}, {value_columns, keys}, by_weights, keys,
                  false);
      for (std::int64_t row = 0; row < count; ++row)
        differentiate<N>(weights + row * keys, by_weights + row * keys,
                         seen_by(o, place, first + row), columns,
                         keep_of(o, place, head, first + row), o.factor,
                         o.log_sums[(token + row) * o.heads + head]);
      multiply<N>(columns, width, count, {weights, 1, keys}, {by, width}, by_value, width, true);
      multiply<N>(columns, width, count, {by_weights, 1, keys}, {query, width}, by_key, width,
                  true);
      multiply<N>(rows, width, columns, {by_weights, keys, 1}, {key, width}, by_query, width,
                  false);
      for (std::int64_t row = 0; row < count; ++row)
        store_row<N>(by_query + row * width, dim, o.scale,
                     rows_of(o.query_gradient, token + row, head));
    }
  }
  for (std::int64_t row = 0; row < place.keys; ++row) {
    const std::int64_t token = place.first_key + row;
    store_row<N>(by_key + row * width, dim, 1, rows_of(o.key_gradient, token, key_head));
    store_row<N>(by_value + row * width, dim, 1, rows_of(o.value_gradient, token, key_head));
  }
}

template <typename T>
ACCELERATE_AVX512 void forward_avx512(const AttentionOperands<T>& operands,
                                      const SequencePlace& place, std::int64_t head,
                                      float* scratch) {
  forward<16>(operands, place, head, scratch);
}
template <typename T>
ACCELERATE_AVX2 void forward_avx2(const AttentionOperands<T>& operands, const SequencePlace& place,
                                  std::int64_t head, float* scratch) {
  forward<8>(operands, place, head, scratch);
}
template <typename T>
ACCELERATE_AVX512 void backward_avx512(const AttentionOperands<T>& operands,
                                       const SequencePlace& place, std::int64_t key_head,
                                       float* scratch) {
  backward<16>(operands, place, key_head, scratch);
}
template <typename T>
ACCELERATE_AVX2 void backward_avx2(const AttentionOperands<T>& operands, const SequencePlace& place,
                                   std::int64_t key_head, float* scratch) {
  backward<8>(operands, place, key_head, scratch);
}

}  // namespace

std::int64_t attention_scratch(const SequencePlace& place, std::int64_t dim) {
  const std::int64_t width = padded(dim), keys = padded(place.keys);
  return 5 * keys * width + block_of(place.queries, place.keys) * (3 * width + 2 * keys);
}

template <typename T>
void attend_forward(const AttentionOperands<T>& operands, const SequencePlace& place,
                    std::int64_t head, float* scratch, Registers registers) {
  if (registers == Registers::avx512) return forward_avx512(operands, place, head, scratch);
  if (registers == Registers::avx2) return forward_avx2(operands, place, head, scratch);
  forward<4>(operands, place, head, scratch);
}

template <typename T>
void attend_backward(const AttentionOperands<T>& operands, const SequencePlace& place,
                     std::int64_t key_head, float* scratch, Registers registers) {
  if (registers == Registers::avx512) return backward_avx512(operands, place, key_head, scratch);
  if (registers == Registers::avx2) return backward_avx2(operands, place, key_head, scratch);
  backward<4>(operands, place, key_head, scratch);
}

#define ACCELERATE_ATTEND_IN(T)                                                                  \
  template void attend_forward(const AttentionOperands<T>&, const SequencePlace&, std::int64_t,  \
                               float*, Registers);                                               \
  template void attend_backward(const AttentionOperands<T>&, const SequencePlace&, std::int64_t, \
                                float*, Registers);
ACCELERATE_ATTEND_IN(float)
ACCELERATE_ATTEND_IN(c10::BFloat16)
#undef ACCELERATE_ATTEND_IN

}  // namespace accelerate::detail
