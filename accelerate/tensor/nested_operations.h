// Local operations on nested values: convert, move, join, pad, ask for sizes. Everything here is
// local and keeps the type and structure of its argument, which does not change; tensor/nested.h
// defines nested values. Undefined tensors stay undefined. Source of the semantics:
// accelerate/utils/operations.py of Hugging Face.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/tensor/nested.h"

namespace accelerate {

struct SendOptions {
  /// Returns before the copy is done, where the device can (pinned memory to a GPU).
  bool non_blocking = false;
  /// Entries of maps, at any depth, that are not moved.
  std::vector<std::string> skip_keys = {};
};

namespace detail {
using Tensors = std::vector<at::Tensor>;

[[nodiscard]] at::Tensor to_fp32(const at::Tensor& tensor);
[[nodiscard]] at::Tensor moved(const at::Tensor& tensor, c10::Device device, bool non_blocking);
/// Joins slot i of all `parts` along `dim`, for each i.
[[nodiscard]] Tensors concatenate(const std::vector<Tensors>& parts, std::int64_t dim);
[[nodiscard]] std::int64_t batch_size_of(const Tensors& tensors);
[[nodiscard]] at::Tensor padded_to_multiple(const at::Tensor& tensor, std::int64_t batch_size,
                                            std::int64_t multiple, std::int64_t dim);

template <typename T>
concept KeyedByText =
    requires(T& value) { std::string_view(value.begin()->first), value.begin()->second; };
template <typename T>
concept OrderedByText =
    requires(T& value) { std::string_view(value.begin()->key()), value.begin()->value(); };
template <typename T>
concept TupleLike = requires { std::tuple_size<T>::value; } && !std::ranges::range<T>;

/// Visits the tensors. Enters only those entries of maps for which `enter(key)` is true.
template <typename T, typename Enter, typename Fn>
void visit_entries(T& value, Enter&& enter, Fn&& fn) {
  const auto visit = [&](auto& part) { visit_entries(part, enter, fn); };
  const auto visit_entry = [&](std::string_view key, auto& part) {
    if (enter(key)) visit(part);
  };
  if constexpr (!Nested<T>) {
    return;
  } else if constexpr (std::is_same_v<T, at::Tensor>) {
    fn(value);
  } else if constexpr (KeyedByText<T>) {
    for (auto& entry : value) visit_entry(entry.first, entry.second);
  } else if constexpr (OrderedByText<T>) {
    for (auto& entry : value) visit_entry(entry.key(), entry.value());
  } else if constexpr (std::ranges::range<T>) {
    for (auto& part : value) visit(part);
  } else if constexpr (TupleLike<T>) {
    std::apply([&visit](auto&... part) { (visit(part), ...); }, value);
  } else {
    visit_tensors(value, fn);  // A user struct: its members have no keys.
  }
}

/// Returns the keys of all maps in `value`, in visiting order.
template <typename T>
[[nodiscard]] std::vector<std::string> keys_of(T& value) {
  std::vector<std::string> keys;
  const auto enter = [&keys](std::string_view key) {
    keys.emplace_back(key);
    return true;
  };
  visit_entries(value, enter, [](at::Tensor&) {});
  return keys;
}
/// Throws UsageError when the keys differ, because entries are joined by their place.
void check_same_keys(const std::vector<std::string>& first, const std::vector<std::string>& other);
}  // namespace detail

/// Returns `value` with every tensor replaced by `fn(tensor)`. Parts without tensors stay. Upstream
/// checks types at run time (error_on_other_type); here the compiler does: `value` must be Nested.
template <typename Fn, Nested T>
[[nodiscard]] T recursively_apply(Fn&& fn, T value) {
  return map_tensors(std::move(value), std::forward<Fn>(fn));
}

/// Converts float16 and bfloat16 tensors to float32. Other tensors stay as they are.
/// Differentiable. Cost: one copy of each converted tensor.
template <Nested T>
[[nodiscard]] T convert_to_fp32(T value) {
  return map_tensors(std::move(value), detail::to_fp32);
}

/// Wraps `fn` so that its nested result is float32, for a forward that runs under autocast.
template <typename Fn>
[[nodiscard]] auto convert_outputs_to_fp32(Fn fn) {
  return [fn = std::move(fn)](auto&&... args) mutable {
    return convert_to_fp32(fn(std::forward<decltype(args)>(args)...));
  };
}

/// Moves every tensor to `device`. Does not copy tensors that are already there.
template <Nested T>
[[nodiscard]] T send_to_device(T value, c10::Device device, const SendOptions& options = {}) {
  detail::visit_entries(
      value,
      [&](std::string_view key) {
        return std::ranges::find(options.skip_keys, key) == options.skip_keys.end();
      },
      [&](at::Tensor& tensor) { tensor = detail::moved(tensor, device, options.non_blocking); });
  return value;
}

/// Returns the device of the first defined tensor; nullopt if `value` holds none.
template <Nested T>
[[nodiscard]] std::optional<c10::Device> find_device(T value) {
  for (const at::Tensor& tensor : collect_tensors(value)) {
    if (tensor.defined()) return tensor.device();
  }
  return std::nullopt;
}

/// Returns the size of the first defined tensor along dim 0. Throws UsageError for a scalar, or if
/// there is no tensor.
template <Nested T>
[[nodiscard]] std::int64_t find_batch_size(T value) {
  return detail::batch_size_of(collect_tensors(value));
}

/// Joins the tensors of `values` along `dim`. All other parts are those of the first value. Throws
/// UsageError if `values` is empty, or if values differ in keys or in their number of tensors.
template <Nested T>
[[nodiscard]] T concatenate(std::vector<T> values, std::int64_t dim = 0) {
  std::vector<detail::Tensors> parts;
  for (T& value : values) parts.push_back(collect_tensors(value));
  const detail::Tensors joined = detail::concatenate(parts, dim);
  const auto keys = detail::keys_of(values.front());
  for (T& value : values) detail::check_same_keys(keys, detail::keys_of(value));
  std::size_t next = 0;
  visit_tensors(values.front(), [&](at::Tensor& tensor) { tensor = joined[next++]; });
  return std::move(values.front());
}

/// Pads every tensor, of `batch_size` rows along `dim`, to the next multiple of `num_processes` by
/// repeating its last row, so that ranks can take equal parts. Throws UsageError for a tensor with
/// another number of rows, or without rows. Upstream documents the same behaviour, but pads with
/// zeros, and pads 6 rows for two processes to 7.
template <Nested T>
[[nodiscard]] T pad_input_tensors(T value, std::int64_t batch_size, std::int64_t num_processes,
                                  std::int64_t dim = 0) {
  return map_tensors(std::move(value), [&](const at::Tensor& tensor) {
    return detail::padded_to_multiple(tensor, batch_size, num_processes, dim);
  });
}

}  // namespace accelerate
