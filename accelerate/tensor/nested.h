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
#include <type_traits>
#include <utility>
#include <vector>

namespace accelerate::detail {

// False for every type: for a static_assert that explains what is wrong with the type.

template <typename...>
inline constexpr bool kNoType = false;

}  // namespace accelerate::detail

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

// Fails to compile, with a sentence, for a value that is const or a temporary.
template <typename T, typename Fn>
  requires(!std::is_lvalue_reference_v<T> || std::is_const_v<std::remove_reference_t<T>>) &&
          Nested<std::remove_cvref_t<T>>
void visit_tensors(T&& value, Fn&& fn);

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

template <typename T, typename Fn>
  requires(!std::is_lvalue_reference_v<T> || std::is_const_v<std::remove_reference_t<T>>) &&
          Nested<std::remove_cvref_t<T>>
void visit_tensors(T&& /*value*/, Fn&& /*fn*/) {
  static_assert(detail::kNoType<T>,
                "visit_tensors changes tensors, so it takes neither a const value nor a temporary: "
                "visit a copy, or call map_tensors(value, fn), which returns one");
}

namespace detail {
// What visit_tensors is given: `fn`, and a sentence for a visit_tensors that takes its struct as
// const and so has no tensors to change.
template <typename Fn>
struct TensorVisitor {
  Fn fn;
  void operator()(at::Tensor& tensor) const { fn(tensor); }
  template <typename T>
  void operator()(const T&) const {
    static_assert(kNoType<T>,
                  "a visit_tensors passes on something that is not a tensor, or cannot be changed: "
                  "declare it as "
                  "`void visit_tensors(YourStruct& value, auto&& fn)`, without const, and call fn "
                  "with members that are tensors");
  }
};
template <typename Fn>
TensorVisitor(Fn) -> TensorVisitor<Fn>;

/// Whether T is Nested. If not, fails to compile with a sentence that says how a struct becomes it.
template <typename T>
consteval bool is_nested_or_explained() {
  static_assert(
      Nested<T>,
      "this value holds no tensor that the library can see. A struct of yours needs a "
      "function beside it: void visit_tensors(YourStruct& value, auto&& fn) { "
      "fn(value.tensor); }. Or pass its tensors as a std::tuple; objects without tensors go "
      "through gather_object or gather_object_for_metrics");
  return Nested<T>;
}
}  // namespace detail

/// Returns `value` with every tensor replaced by `fn(tensor)`. Local. Cost: one copy or move of the
/// structure.
template <Nested T, typename Fn>
[[nodiscard]] T map_tensors(T value, Fn&& fn) {
  visit_tensors(value, detail::TensorVisitor{[&fn](at::Tensor& tensor) { tensor = fn(tensor); }});
  return value;
}

/// Returns the tensors of `value` in visiting order (handles, no copies).
template <Nested T>
[[nodiscard]] std::vector<at::Tensor> collect_tensors(T& value) {
  std::vector<at::Tensor> tensors;
  visit_tensors(
      value, detail::TensorVisitor{[&tensors](at::Tensor& tensor) { tensors.push_back(tensor); }});
  return tensors;
}

}  // namespace accelerate
