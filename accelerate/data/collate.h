// Collates samples into a batch, as PyTorch's `default_collate` does:
//
//   tensor                    → tensor with a new first dimension
//   integer, bool, floating   → 1-d tensor (int64, bool, float32 for float, float64 for double)
//   string                    → vector of strings
//   pair, tuple, Example      → pair, tuple or Example of the collated parts
//   anything visit_tensors knows (map, array, vector of tensors, a user struct)
//                             → the same type with each tensor stacked; other members are copied
//                               from the first sample
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/tensor/nested.h"
#include "accelerate/tensor/same_keys.h"

namespace accelerate {
namespace detail {

/// Copies `count` values into a 1-d CPU tensor.
[[nodiscard]] at::Tensor tensor_of_values(const void* values, std::size_t count,
                                          at::ScalarType type);

/// Copies the rows `indices` of `tensor`, in that order. Shape {indices.size(), …}, new memory.
[[nodiscard]] at::Tensor gather_rows(const at::Tensor& tensor,
                                     std::span<const std::size_t> indices);

/// Returns the number of rows. Throws DataError unless every tensor has as many rows.
[[nodiscard]] std::size_t common_rows(const std::vector<at::Tensor>& columns);

/// Throws DataError: sample `place` of a batch has other keys or tensors than sample 0.
[[noreturn]] void throw_unlike_samples(std::size_t place);

/// Stacks the k-th tensors of all samples, in visiting order, into the first sample. Throws
/// DataError when samples differ in keys, lengths or their number of tensors.
template <Nested Sample>
void stack_into_first(std::vector<Sample>& samples) {
  std::vector<std::vector<at::Tensor>> all;
  all.reserve(samples.size());
  for (Sample& sample : samples) {
    all.push_back(collect_tensors(sample));
    if (all.back().size() == all.front().size() && same_keys(samples.front(), sample)) continue;
    throw_unlike_samples(all.size() - 1);
  }
  std::size_t place = 0;
  visit_tensors(samples.front(), [&](at::Tensor& tensor) {
    std::vector<at::Tensor> column;
    column.reserve(all.size());
    for (auto& tensors : all) column.push_back(std::move(tensors[place]));
    tensor = at::stack(column);
    ++place;
  });
}

template <typename Sample>
struct Collate;

template <typename T>
using Collated = typename Collate<T>::Batch;

/// A type whose samples default_collate can make into a batch.
template <typename T>
concept Collatable = requires { typename Collate<T>::Batch; };

// Collates one part of a tuple, pair or Example.
template <typename Part, typename Sample, typename Get>
Collated<Part> collate_part(std::vector<Sample>& samples, Get get) {
  std::vector<Part> column;
  column.reserve(samples.size());
  for (Sample& sample : samples) column.push_back(std::move(get(sample)));
  return Collate<Part>::make(std::move(column));
}

template <typename T>
inline constexpr bool kCollatedByParts = false;
template <typename First, typename Second>
inline constexpr bool kCollatedByParts<std::pair<First, Second>> = true;
template <typename... Part>
inline constexpr bool kCollatedByParts<std::tuple<Part...>> = true;
template <typename Data, typename Target>
inline constexpr bool kCollatedByParts<torch::data::Example<Data, Target>> = true;

// Structures whose batch has the same type as a sample.
template <Nested Sample>
  requires(!kCollatedByParts<Sample>)
struct Collate<Sample> {
  using Batch = Sample;
  static Batch make(std::vector<Sample> samples) {
    stack_into_first(samples);
    return std::move(samples.front());
  }
};

template <>
struct Collate<at::Tensor> {
  using Batch = at::Tensor;
  static Batch make(const std::vector<at::Tensor>& samples) { return at::stack(samples); }
};

template <typename T>
  requires std::is_arithmetic_v<T>
struct Collate<T> {
  using Batch = at::Tensor;
  using Value = std::conditional_t<std::integral<T> && !std::same_as<T, bool>, std::int64_t, T>;
  static Batch make(const std::vector<T>& samples) {
    // vector<bool> has no data(). A bool tensor stores one byte a value.
    using Stored = std::conditional_t<std::same_as<T, bool>, std::uint8_t, Value>;
    const std::vector<Stored> values(samples.begin(), samples.end());
    return tensor_of_values(values.data(), values.size(), c10::CppTypeToScalarType<Value>::value);
  }
};

template <>
struct Collate<std::string> {
  using Batch = std::vector<std::string>;
  static Batch make(std::vector<std::string> samples) { return samples; }
};

template <Collatable First, Collatable Second>
struct Collate<std::pair<First, Second>> {
  using Sample = std::pair<First, Second>;
  using Batch = std::pair<Collated<First>, Collated<Second>>;
  static Batch make(std::vector<Sample> samples) {
    return {collate_part<First>(samples, [](Sample& s) -> First& { return s.first; }),
            collate_part<Second>(samples, [](Sample& s) -> Second& { return s.second; })};
  }
};

template <Collatable... Part>
struct Collate<std::tuple<Part...>> {
  using Sample = std::tuple<Part...>;
  using Batch = std::tuple<Collated<Part>...>;
  static Batch make(std::vector<Sample> samples) {
    return make_parts(samples, std::index_sequence_for<Part...>{});
  }

 private:
  template <std::size_t... I>
  static Batch make_parts(std::vector<Sample>& samples, std::index_sequence<I...>) {
    return Batch{collate_part<Part>(samples, [](Sample& s) -> Part& { return std::get<I>(s); })...};
  }
};

template <Collatable Data, Collatable Target>
struct Collate<torch::data::Example<Data, Target>> {
  using Sample = torch::data::Example<Data, Target>;
  using Batch = torch::data::Example<Collated<Data>, Collated<Target>>;
  static Batch make(std::vector<Sample> samples) {
    return {collate_part<Data>(samples, [](Sample& s) -> Data& { return s.data; }),
            collate_part<Target>(samples, [](Sample& s) -> Target& { return s.target; })};
  }
};

template <Collatable Data>
struct Collate<torch::data::Example<Data, void>> {
  using Sample = torch::data::Example<Data, void>;
  using Batch = torch::data::Example<Collated<Data>, void>;
  static Batch make(std::vector<Sample> samples) {
    return {collate_part<Data>(samples, [](Sample& s) -> Data& { return s.data; })};
  }
};

}  // namespace detail

/// Makes a batch of one or more `samples`. Throws c10::Error when tensors to stack differ in shape.
/// Throws DataError when samples differ in keys or in their number of tensors. Source:
/// `torch.utils.data.default_collate`.
template <typename Sample>
  requires detail::Collatable<Sample>
[[nodiscard]] detail::Collated<Sample> default_collate(std::vector<Sample> samples) {
  return detail::Collate<Sample>::make(std::move(samples));
}

}  // namespace accelerate
