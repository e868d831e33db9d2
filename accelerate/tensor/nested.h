// Nested values. One ADL function, visit_tensors(value, fn), makes a type usable as a batch, as a
// model output, or as an argument of gather, reduce, broadcast, pad and device moves. The library
// knows tensors, Example, vector, array, pair, tuple, optional, map and OrderedDict. A user struct
// needs one line:
//
//   struct Batch { at::Tensor ids, mask; };
//   void visit_tensors(Batch& b, auto&& fn) { fn(b.ids); fn(b.mask); }
//
// Undefined tensors are visited too; `fn` decides. Other members of such a struct are sent to other
// ranks if the compiler can see them (tensor/fields.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace torch {
template <typename Key, typename Value>
class OrderedDict;
namespace data {
template <typename Data, typename Target>
struct Example;
}
}  // namespace torch

namespace accelerate {

/// Stands for any `fn` in the concept below. Because it is in this namespace, argument-dependent
/// lookup also finds the overloads that are declared further down.
struct AnyTensorFunction {
  void operator()(at::Tensor&) const {}
};

/// A type whose tensors can be visited. A container is Nested when its elements are.
template <typename T>
concept Nested = requires(T& value) { visit_tensors(value, AnyTensorFunction{}); };

/// Specialise as true for a class whose members the compiler cannot see (tensor/fields.h names the
/// limits), if only the tensors that visit_tensors visits are to be gathered.
template <typename T>
inline constexpr bool kOnlyTensorsTravel = false;

// Declared first, so that containers of containers find each other.
template <typename Fn>
void visit_tensors(at::Tensor& value, Fn&& fn);
template <Nested T, typename A, typename Fn>
void visit_tensors(std::vector<T, A>& value, Fn&& fn);
template <Nested T, std::size_t N, typename Fn>
void visit_tensors(std::array<T, N>& value, Fn&& fn);
template <typename First, typename Second, typename Fn>
void visit_tensors(std::pair<First, Second>& value, Fn&& fn);
template <typename... T, typename Fn>
void visit_tensors(std::tuple<T...>& value, Fn&& fn);
template <Nested T, typename Fn>
void visit_tensors(std::optional<T>& value, Fn&& fn);
template <typename Key, Nested T, typename C, typename A, typename Fn>
void visit_tensors(std::map<Key, T, C, A>& value, Fn&& fn);
template <typename Key, Nested T, typename Fn>
void visit_tensors(torch::OrderedDict<Key, T>& value, Fn&& fn);
template <typename Data, typename Target, typename Fn>
void visit_tensors(torch::data::Example<Data, Target>& value, Fn&& fn);

namespace detail {
// Skips parts of a tuple or pair that hold no tensor (a label string, an index).
template <typename T, typename Fn>
void visit_if_nested(T& value, Fn&& fn) {
  if constexpr (Nested<T>) visit_tensors(value, fn);
}
}  // namespace detail

template <typename Fn>
void visit_tensors(at::Tensor& value, Fn&& fn) {
  fn(value);
}
template <Nested T, typename A, typename Fn>
void visit_tensors(std::vector<T, A>& value, Fn&& fn) {
  for (T& item : value) visit_tensors(item, fn);
}
template <Nested T, std::size_t N, typename Fn>
void visit_tensors(std::array<T, N>& value, Fn&& fn) {
  for (T& item : value) visit_tensors(item, fn);
}
template <typename First, typename Second, typename Fn>
void visit_tensors(std::pair<First, Second>& value, Fn&& fn) {
  detail::visit_if_nested(value.first, fn);
  detail::visit_if_nested(value.second, fn);
}
template <typename... T, typename Fn>
void visit_tensors(std::tuple<T...>& value, Fn&& fn) {
  std::apply([&fn](T&... item) { (detail::visit_if_nested(item, fn), ...); }, value);
}
template <Nested T, typename Fn>
void visit_tensors(std::optional<T>& value, Fn&& fn) {
  if (value) visit_tensors(*value, fn);
}
template <typename Key, Nested T, typename C, typename A, typename Fn>
void visit_tensors(std::map<Key, T, C, A>& value, Fn&& fn) {
  for (auto& entry : value) visit_tensors(entry.second, fn);
}
template <typename Key, Nested T, typename Fn>
void visit_tensors(torch::OrderedDict<Key, T>& value, Fn&& fn) {
  for (auto& entry : value) visit_tensors(entry.value(), fn);
}
template <typename Data, typename Target, typename Fn>
void visit_tensors(torch::data::Example<Data, Target>& value, Fn&& fn) {
  detail::visit_if_nested(value.data, fn);
  if constexpr (requires { value.target; }) detail::visit_if_nested(value.target, fn);
}

/// Returns `value` with every tensor replaced by `fn(tensor)`. Local. Cost: one copy or move of the
/// structure.
template <Nested T, typename Fn>
[[nodiscard]] T map_tensors(T value, Fn&& fn) {
  visit_tensors(value, [&fn](at::Tensor& tensor) { tensor = fn(tensor); });
  return value;
}

/// Returns the tensors of `value` in visiting order (handles, no copies).
template <Nested T>
[[nodiscard]] std::vector<at::Tensor> collect_tensors(T& value) {
  std::vector<at::Tensor> tensors;
  visit_tensors(value, [&tensors](at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

}  // namespace accelerate
