// Tensors by name: batches of text loaders and arguments of models.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/tensor/nested.h"
#include "accelerate/tensor/parcel.h"

namespace accelerate {

/// Tensors by name, in the order in which they were added. Gathered, moved, cast and sent between
/// ranks like any other batch. Copies share the tensors' memory.
class Inputs {
 public:
  using mapped_type = at::Tensor;  ///< Makes same_keys() compare the names of two batches.

  Inputs() = default;
  Inputs(std::initializer_list<std::pair<std::string, at::Tensor>> tensors) : tensors_(tensors) {}

  /// Throws UsageError for an unknown name, and lists the names that exist.
  [[nodiscard]] const at::Tensor& operator[](std::string_view name) const;
  /// Returns an undefined tensor if there is no such name.
  [[nodiscard]] at::Tensor get(std::string_view name) const;
  [[nodiscard]] bool contains(std::string_view name) const;
  /// Changes a tensor, or appends it.
  void set(std::string_view name, at::Tensor tensor);
  /// Removes a tensor. Returns whether it existed.
  bool erase(std::string_view name);
  [[nodiscard]] std::vector<std::string> keys() const;

  [[nodiscard]] std::size_t size() const { return tensors_.size(); }
  [[nodiscard]] auto begin() { return tensors_.begin(); }
  [[nodiscard]] auto end() { return tensors_.end(); }
  [[nodiscard]] auto begin() const { return tensors_.begin(); }
  [[nodiscard]] auto end() const { return tensors_.end(); }

  /// Whether all samples are concatenated in one row, as by DataCollatorWithFlattening. Such a
  /// batch has no rows that could be divided between ranks.
  [[nodiscard]] bool is_flattened() const { return is_flattened_; }
  void set_flattened(bool is_flattened) { is_flattened_ = is_flattened; }

 private:
  friend struct detail::Parcel<Inputs>;
  std::vector<std::pair<std::string, at::Tensor>> tensors_;
  bool is_flattened_ = false;
};

template <typename Fn>
void visit_tensors(Inputs& inputs, Fn&& fn) {
  for (auto& [name, tensor] : inputs) fn(tensor);
}

namespace detail {

template <>
struct Parcel<Inputs> {
  static void write(ParcelWriter& writer, Inputs& value) {
    Parcel<bool>::write(writer, value.is_flattened_);
    Parcel<decltype(value.tensors_)>::write(writer, value.tensors_);
  }
  static void read(ParcelReader& reader, Inputs& value) {
    Parcel<bool>::read(reader, value.is_flattened_);
    Parcel<decltype(value.tensors_)>::read(reader, value.tensors_);
  }
};

}  // namespace detail
}  // namespace accelerate
