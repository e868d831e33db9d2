// Splits one input between ranks, for inference.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"

namespace accelerate {

struct SplitOptions {
  /// Repeat the last element so that all ranks get equally many.
  bool apply_padding = false;
};

namespace detail {

/// Returns the positions of this rank's elements among `length`. The first length % size ranks get
/// one more. Padding repeats the last position of the whole input. Source:
/// PartialState.split_between_processes of Hugging Face.
[[nodiscard]] std::vector<std::int64_t> split_positions(std::int64_t length, int rank, int size,
                                                        const SplitOptions& options);

[[nodiscard]] at::Tensor take(const at::Tensor& value, const std::vector<std::int64_t>& positions);

template <typename T>
std::vector<T> take(const std::vector<T>& value, const std::vector<std::int64_t>& positions) {
  std::vector<T> part;
  part.reserve(positions.size());
  for (const auto i : positions) part.push_back(value[static_cast<std::size_t>(i)]);
  return part;
}

[[nodiscard]] std::int64_t length_of(const at::Tensor& value);
template <typename T>
std::int64_t length_of(const std::vector<T>& value) {
  return static_cast<std::int64_t>(value.size());
}
template <typename T>
std::int64_t length_of(const std::map<std::string, T>& value) {
  if (value.empty()) return 0;
  const auto length = length_of(value.begin()->second);
  for (const auto& [key, item] : value) {
    if (length_of(item) != length) {
      throw UsageError(
          "split_between_processes: all values of the map must have the same length, but '" +
          value.begin()->first + "' has " + std::to_string(length) + " and '" + key + "' has " +
          std::to_string(length_of(item)));
    }
  }
  return length;
}

template <typename T>
std::map<std::string, T> take(const std::map<std::string, T>& value,
                              const std::vector<std::int64_t>& positions) {
  std::map<std::string, T> part;
  for (const auto& [key, item] : value) part.emplace(key, take(item, positions));
  return part;
}

}  // namespace detail

/// Returns this rank's part of `value`: a vector, a tensor (along dim 0), or a map whose values are
/// equally long. A group of one gets all of it. Local.
template <typename T>
[[nodiscard]] T split_between_ranks(const T& value, int rank, int size,
                                    const SplitOptions& options) {
  if (size == 1) return value;
  return detail::take(value,
                      detail::split_positions(detail::length_of(value), rank, size, options));
}

}  // namespace accelerate
