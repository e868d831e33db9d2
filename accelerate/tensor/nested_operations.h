// What a loop does with nested values on its own rank: convert, move, join, pad, ask for sizes.
// Everything here is local, leaves its argument alone and keeps its type and structure; see
// tensor/nested.h for what is nested. Undefined tensors stay undefined. Source of the semantics:
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
  /// Return before the copy is done, where the device can (pinned memory to a GPU).
  bool non_blocking = false;
  /// Entries of maps, at any depth, that stay where they are.
  std::vector<std::string> skip_keys = {};
};

namespace detail {
using Tensors = std::vector<at::Tensor>;

[[nodiscard]] at::Tensor to_fp32(const at::Tensor& tensor);
[[nodiscard]] at::Tensor moved(const at::Tensor& tensor, c10::Device device, bool non_blocking);
/// Slot i of the result: the slots i of `parts` joined along `dim`.
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

/// Visits the tensors, and the entries of maps for whose key `enter(key)` is true.
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

/// The keys of all maps in `value`, in visiting order.
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
/// Throws UsageError where they differ: entries are joined by place.
void check_same_keys(const std::vector<std::string>& first, const std::vector<std::string>& other);
}  // namespace detail

/// `value` with every tensor replaced by `fn(tensor)`; parts that hold no tensor stay. What
/// upstream checks when it runs (error_on_other_type) the compiler checks here: `value` must be
/// Nested.
template <typename Fn, Nested T>
[[nodiscard]] T recursively_apply(Fn&& fn, T value) {
  return map_tensors(std::move(value), std::forward<Fn>(fn));
}

/// float16 and bfloat16 tensors become float32, others stay as they are. Differentiable.
/// Cost: one copy of each converted tensor.
template <Nested T>
[[nodiscard]] T convert_to_fp32(T value) {
  return map_tensors(std::move(value), detail::to_fp32);
}

/// `fn` whose nested result comes as float32, for a forward that runs under autocast.
template <typename Fn>
[[nodiscard]] auto convert_outputs_to_fp32(Fn fn) {
  return [fn = std::move(fn)](auto&&... args) mutable {
    return convert_to_fp32(fn(std::forward<decltype(args)>(args)...));
  };
}

/// Every tensor on `device`; those that are there already are not copied.
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

/// The device of the first tensor, nullopt when `value` holds none.
template <Nested T>
[[nodiscard]] std::optional<c10::Device> find_device(T value) {
  for (const at::Tensor& tensor : collect_tensors(value)) {
    if (tensor.defined()) return tensor.device();
  }
  return std::nullopt;
}

/// Size of the first tensor along dim 0. Throws UsageError: no tensor, or a scalar.
template <Nested T>
[[nodiscard]] std::int64_t find_batch_size(T value) {
  return detail::batch_size_of(collect_tensors(value));
}

/// One value whose tensors are those of `values` joined along `dim`; its other parts are those of
/// the first. Throws UsageError: no values, or values with different numbers of tensors or other
/// keys.
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

/// Every tensor, `batch_size` rows along `dim`, is padded to the next multiple of `num_processes`
/// by its last row, so that ranks can take equal parts. Throws UsageError: a tensor with another
/// number of rows, or none. Upstream says the same, but pads with zeros, and pads 6 rows for two
/// processes to 7.
template <Nested T>
[[nodiscard]] T pad_input_tensors(T value, std::int64_t batch_size, std::int64_t num_processes,
                                  std::int64_t dim = 0) {
  return map_tensors(std::move(value), [&](const at::Tensor& tensor) {
    return detail::padded_to_multiple(tensor, batch_size, num_processes, dim);
  });
}

}  // namespace accelerate
