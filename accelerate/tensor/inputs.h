// Tensors by name: what loaders of text carry and models take.
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

/// Tensors in the order in which they were put in. Gathered, moved, cast and sent between ranks
/// like any other batch; copies share the tensors' memory.
class Inputs {
 public:
  using mapped_type = at::Tensor;  ///< Lets batches be compared by their names.

  Inputs() = default;
  Inputs(std::initializer_list<std::pair<std::string, at::Tensor>> tensors) : tensors_(tensors) {}

  /// Throws UsageError, with the names that are there, for another one.
  [[nodiscard]] const at::Tensor& operator[](std::string_view name) const;
  /// An undefined tensor if there is none.
  [[nodiscard]] at::Tensor get(std::string_view name) const;
  [[nodiscard]] bool contains(std::string_view name) const;
  /// Changes a tensor or adds it behind the others.
  void set(std::string_view name, at::Tensor tensor);
  /// Whether it was there.
  bool erase(std::string_view name);
  [[nodiscard]] std::vector<std::string> keys() const;

  [[nodiscard]] std::size_t size() const { return tensors_.size(); }
  [[nodiscard]] auto begin() { return tensors_.begin(); }
  [[nodiscard]] auto end() { return tensors_.end(); }
  [[nodiscard]] auto begin() const { return tensors_.begin(); }
  [[nodiscard]] auto end() const { return tensors_.end(); }

  /// Whether the rows of all samples stand in one row, as DataCollatorWithFlattening puts them.
  /// Such a batch has no rows to be divided between ranks.
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
